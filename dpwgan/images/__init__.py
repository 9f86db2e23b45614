"""Images: idx files to tables and back, and contact sheets. Beside the job that makes a release."""
