"""The app in the terminal. It knows runs, turns and cards, and no process or model."""
