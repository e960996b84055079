//! The best validation so far, and whether training still improves.

use crate::run::{Best, TrainState};

impl TrainState {
    /// Takes a validation of this step into account; returns whether it is the best so far. `rank`
    /// is higher the better `score` is; among equal scores, such as the zeros of the first
    /// validations, the loss decides.
    ///
    /// A validation is stale if it brings neither a better score nor a lower loss: scores near 0 go
    /// up and down while the loss falls. While the learning rate warms up, none is.
    pub(super) fn see_validation(
        &mut self,
        score: f64,
        rank: impl Fn(f64) -> f64,
        loss: f64,
        warms_up: bool,
    ) -> bool {
        let is_best = self
            .best
            .is_none_or(|best| (rank(score), -loss) > (rank(best.score), -best.loss));
        let lowest = self.lowest_known_loss();
        let loss_fell = lowest.is_none_or(|lowest| loss < lowest);
        if is_best {
            self.best = Some(Best {
                step: self.step,
                score,
                loss,
            });
        }
        self.lowest_loss = if loss_fell { Some(loss) } else { lowest };
        self.stale_validations = if is_best || loss_fell || warms_up {
            0
        } else {
            self.stale_validations + 1
        };
        is_best
    }

    /// Returns the lowest validation loss so far. The first checkpoints did not have it; of them,
    /// that of the best validation is the lowest that is known.
    pub(super) fn lowest_known_loss(&self) -> Option<f64> {
        self.lowest_loss.or(self.best.map(|best| best.loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step of the best of some validations, and how many were stale after each.
    fn watch(
        validations: &[(f64, f64)],
        rank: fn(f64) -> f64,
        warmup: u64,
    ) -> (Option<u64>, Vec<u64>) {
        let mut state = TrainState::default();
        let mut counts = Vec::new();
        for (step, &(score, loss)) in (1..).zip(validations) {
            state.step = step;
            state.see_validation(score, rank, loss, step <= warmup);
            counts.push(state.stale_validations);
        }
        (state.best.map(|best| best.step), counts)
    }

    #[test]
    fn scores_that_go_up_and_down_are_not_stale_while_the_loss_falls() {
        let noise = [
            (0.0, 6.3),
            (0.31, 6.2),
            (0.12, 6.0),
            (0.0, 5.7),
            (0.05, 5.5),
            (0.2, 5.4),
        ];
        assert_eq!(watch(&noise, |bleu| bleu, 0), (Some(2), vec![0; 6]));
    }

    #[test]
    fn a_score_that_rises_is_not_stale_while_the_loss_does_not_fall() {
        let overfitting = [
            (20.0, 2.0),
            (21.0, 2.1),
            (22.0, 2.2),
            (21.9, 2.3),
            (21.8, 2.1),
        ];
        assert_eq!(
            watch(&overfitting, |bleu| bleu, 0),
            (Some(3), vec![0, 0, 0, 1, 2])
        );
    }

    #[test]
    fn nothing_is_stale_while_the_learning_rate_warms_up() {
        let flat = [(0.0, 6.0); 6];
        assert_eq!(
            watch(&flat, |bleu| bleu, 3),
            (Some(1), vec![0, 0, 0, 1, 2, 3])
        );
    }

    #[test]
    fn among_equal_scores_the_loss_decides_and_a_loss_is_better_lower() {
        assert_eq!(
            watch(&[(0.0, 6.0), (0.0, 5.0), (0.0, 5.5)], |bleu| bleu, 0),
            (Some(2), vec![0, 0, 1])
        );
        assert_eq!(
            watch(&[(6.0, 6.0), (5.0, 5.0), (5.5, 5.5)], |loss| -loss, 0),
            (Some(2), vec![0, 0, 1])
        );
    }

    #[test]
    fn an_old_run_continues_with_the_loss_of_its_best() {
        let best = Best {
            step: 10,
            score: 30.0,
            loss: 1.5,
        };
        let mut state = TrainState {
            step: 20,
            best: Some(best),
            stale_validations: 1,
            ..TrainState::default()
        };
        assert!(!state.see_validation(29.0, |bleu| bleu, 1.6, false));
        assert_eq!((state.stale_validations, state.lowest_loss), (2, Some(1.5)));
    }
}
