//! When the loss of a training has diverged.

use crate::run::TrainState;

/// A loss has risen if it is above the lowest by this part of the loss of a model that has learned
/// nothing.
const RISEN: f64 = 0.1;
/// No model begins with a loss that is this many times that of a model that has learned nothing.
const FAR: f64 = 1.5;

/// Watches the losses of the reports, in nats per target token.
#[derive(Debug)]
pub(super) struct Divergence {
    lowest_loss: f64,
    has_begun: bool,
}

impl Divergence {
    /// Starts from the lowest validation loss of a resumed training, which is the only loss that
    /// checkpoints keep: a training that diverges right after a resume has been lower before.
    pub(super) fn new(state: &TrainState) -> Self {
        Self {
            lowest_loss: state.lowest_known_loss().unwrap_or(f64::INFINITY),
            has_begun: false,
        }
    }

    /// Takes a loss into account; returns whether it is the first that has diverged: after the
    /// warm-up it is above `uniform`, the loss of a model that has learned nothing, and not merely
    /// on its way down from there: it has been lower, or is far above.
    pub(super) fn begins(&mut self, loss: f64, uniform: f64, warms_up: bool) -> bool {
        self.lowest_loss = self.lowest_loss.min(loss);
        if warms_up || self.has_begun || !loss.is_finite() {
            return false;
        }
        let has_risen = loss > self.lowest_loss + RISEN * uniform || loss > FAR * uniform;
        self.has_begun = loss > uniform && has_risen;
        self.has_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_diverges_once_it_is_above_chance_after_it_was_lower() {
        let mut divergence = Divergence::new(&TrainState::default());
        assert!(!divergence.begins(10.5, 10.0, false), "it may still fall");
        assert!(!divergence.begins(6.0, 10.0, false));
        assert!(!divergence.begins(9.0, 10.0, false), "better than chance");
        assert!(!divergence.begins(11.0, 10.0, true), "it warms up");
        assert!(divergence.begins(11.0, 10.0, false));
        assert!(!divergence.begins(12.0, 10.0, false), "it has begun before");
    }

    #[test]
    fn a_resumed_training_knows_how_low_its_loss_has_been() {
        let state = TrainState {
            lowest_loss: Some(3.0),
            ..TrainState::default()
        };
        assert!(!Divergence::new(&TrainState::default()).begins(11.0, 10.0, false));
        assert!(Divergence::new(&state).begins(11.0, 10.0, false));
    }
}
