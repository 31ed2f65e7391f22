"""The former commands that are no verbs yet; `hfxling.cli` runs them, and nothing else imports them."""
