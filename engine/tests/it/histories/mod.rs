//! Random histories, played by the engine and by the oracle side by side. How the oracle decides is in `oracle`.

mod combinations;
mod explained;
mod play;
mod properties;
mod random;
mod steps;
mod worlds;
