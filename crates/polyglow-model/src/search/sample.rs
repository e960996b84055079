//! Sampling by the Gumbel-max trick: the largest of the log-probabilities, each with Gumbel noise
//! added, is a fair draw.

use super::SearchConfig;
use super::hypothesis::Continuation;
use crate::random::Random;

/// Keeps the tokens among which `top_k` and `top_p` draw, and puts them in a random order that the
/// drawn token leads.
///
/// `choices` are the continuations of one hypothesis, whose score is `so_far`. The noise of a token
/// is a function of `key` and its id alone, so the draw depends neither on the batch nor on the
/// order of the candidates.
pub(super) fn draw(
    choices: &mut Vec<Continuation>,
    so_far: f32,
    config: &SearchConfig,
    key: &[u64],
) {
    choices.sort_by(Continuation::order);
    if config.top_k > 0 {
        choices.truncate(config.top_k);
    }
    if config.top_p < 1.0 {
        let weights: Vec<f64> = choices
            .iter()
            .map(|choice| log_weight(choice, so_far, config.temperature))
            .collect();
        choices.truncate(nucleus(&weights, config.top_p));
    }
    // A generator for each token, by its id: tokens that other settings exclude would otherwise
    // shift the noise of the rest.
    let draws = Random::new(key).bits();
    for choice in choices.iter_mut() {
        let uniform = Random::new(&[draws, u64::from(choice.id)])
            .uniform()
            // Its logarithm must be finite.
            .max(f64::MIN_POSITIVE);
        let weight = log_weight(choice, so_far, config.temperature);
        choice.sort_key = (weight - (-uniform.ln()).ln()) as f32;
    }
    choices.sort_by(Continuation::order);
}

/// The logarithm of the weight by which a token is drawn: its own part of the score, divided by the
/// temperature.
fn log_weight(choice: &Continuation, so_far: f32, temperature: f64) -> f64 {
    (f64::from(choice.score) - f64::from(so_far)) / temperature
}

/// The number of most probable tokens, given best first by log-weight, that together reach the
/// probability `top_p` (Holtzman et al., 2020).
fn nucleus(weights: &[f64], top_p: f64) -> usize {
    let Some(largest) = weights.first() else {
        return 0;
    };
    let probabilities: Vec<f64> = weights
        .iter()
        .map(|weight| (weight - largest).exp())
        .collect();
    // Relative to the largest, so that no exponential overflows; the sum takes the place of 1.
    let enough = top_p * probabilities.iter().sum::<f64>();
    let mut sum = 0.0;
    for (index, probability) in probabilities.iter().enumerate() {
        sum += probability;
        if sum >= enough {
            return index + 1;
        }
    }
    weights.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(probabilities: &[f64]) -> Vec<Continuation> {
        let choice = |(id, probability): (u32, &f64)| {
            let score = probability.ln() as f32 - 3.0;
            Continuation {
                row: 0,
                id,
                log_prob: score,
                score,
                sort_key: score,
            }
        };
        (0..).zip(probabilities).map(choice).collect()
    }

    fn frequencies(config: &SearchConfig) -> Vec<f64> {
        const DRAWS: u64 = 20_000;
        let mut counts = vec![0; 4];
        for number in 0..DRAWS {
            let mut choices = choices(&[0.1, 0.4, 0.2, 0.3]);
            draw(&mut choices, -3.0, config, &[7, number]);
            counts[choices[0].id as usize] += 1;
        }
        counts
            .into_iter()
            .map(|count| f64::from(count) / DRAWS as f64)
            .collect()
    }

    /// With 20 000 draws, three standard deviations are at most 0.011.
    fn assert_near(frequencies: &[f64], expected: [f64; 4]) {
        let are_near = frequencies
            .iter()
            .zip(expected)
            .all(|(frequency, expected)| (frequency - expected).abs() < 0.011);
        assert!(are_near, "{frequencies:?} is not {expected:?}");
    }

    #[test]
    fn tokens_are_drawn_as_often_as_they_are_probable() {
        let config = SearchConfig::default();
        assert_near(&frequencies(&config), [0.1, 0.4, 0.2, 0.3]);
        let squares = [0.01, 0.16, 0.04, 0.09].map(|square| square / 0.3);
        assert_near(
            &frequencies(&SearchConfig {
                temperature: 0.5,
                ..config
            }),
            squares,
        );
    }

    #[test]
    fn top_k_and_top_p_leave_the_tail_out() {
        let config = SearchConfig::default();
        let top_2 = [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0];
        assert_near(
            &frequencies(&SearchConfig {
                top_k: 2,
                ..config.clone()
            }),
            top_2,
        );
        assert_near(
            &frequencies(&SearchConfig {
                top_p: 0.6,
                ..config.clone()
            }),
            top_2,
        );
        assert_near(
            &frequencies(&SearchConfig {
                top_p: 0.75,
                ..config
            }),
            [0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0],
        );
    }
}
