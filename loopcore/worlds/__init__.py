"""Small environments with known truth, worked by agents whose habits are known."""
