"""SavedModels: their inputs, outputs and signatures, and the directories they are written to."""
