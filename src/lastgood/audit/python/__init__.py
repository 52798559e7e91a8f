"""A Python program that is the job, as far as its text tells how it saves, resumes and stops."""
