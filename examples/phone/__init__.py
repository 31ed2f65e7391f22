"""A static model on a phone: README.md says how."""
