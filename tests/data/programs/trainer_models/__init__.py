"""The models of trainer.py, each in a module that the registry imports when the model is asked for."""
