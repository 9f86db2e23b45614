"""The attacks by name, in the order in which they are played."""

from collections.abc import Mapping

from dpwgan.audit.attacks import anonymity, attribute, copies, inversion, membership
from dpwgan.audit.attacks.base import Attack

ATTACKS: Mapping[str, Attack] = {
    copies.NAME: copies.count_copies,
    membership.DISTANCE: membership.attack_by_distance,
    membership.DENSITY_RATIO: membership.attack_by_density_ratio,
    attribute.NAME: attribute.infer_attributes,
    anonymity.SINGLING_OUT: anonymity.single_out,
    anonymity.LINKABILITY: anonymity.link,
    inversion.NAME: inversion.invert_classifier,
}
