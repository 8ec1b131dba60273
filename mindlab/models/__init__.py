"""The small models that chapters share: on one card first, in plain torch."""
