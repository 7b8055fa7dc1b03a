"""End-to-End Decision Trees: linear nodes, grown by likelihood and refined as a whole."""
