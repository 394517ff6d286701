"""Learning: networks, self-play, training and evaluation. So far there is only the entry point `train`."""
