"""What trained models do: translations, states and scores, compared and drawn."""
