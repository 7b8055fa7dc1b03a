"""Growth of new trees for a forest: Newton steps on histograms, in the forest's own tests."""
