//! A model of the time of a step among several ranks, which docs/cluster.md explains.

use polyglow_train::train::bucket_len;
use serde::Serialize;

/// Micro-batches of a rank in each step, a column each.
pub(super) const COLUMNS: [u64; 4] = [1, 2, 4, 8];
/// The efficiency that the advised number of micro-batches has.
const ADVISED: f64 = 0.9;
/// The largest number of ranks.
const MOST_RANKS: u64 = 1024;

/// Share of a network's rate that sums get, after the headers of TCP.
const USABLE: f64 = 0.9;

/// The network between the ranks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Network {
    /// Bits a second, as on its data sheet.
    pub(super) bits_per_second: f64,
    /// Seconds that a message takes besides its bytes.
    pub(super) latency: f64,
    /// Bytes a second that a rank copies, sends and adds.
    pub(super) host_bytes_per_second: f64,
}

/// The work of a rank between two exchanges.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Work {
    /// Trained values.
    pub(super) parameters: usize,
    /// Forward and backward pass of a micro-batch, in seconds.
    pub(super) micro_batch_seconds: f64,
    /// The update of the weights, which every rank makes for itself, in seconds.
    pub(super) update_seconds: f64,
    /// Bytes of a gradient as it is sent.
    pub(super) bytes_per_value: usize,
}

/// Efficiency by the number of ranks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RanksReport {
    pub(super) network: Network,
    pub(super) work: Work,
    /// 2 ranks, 4, and so on.
    pub(super) rows: Vec<RanksRow>,
}

/// The estimate for a number of ranks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RanksRow {
    /// Processes, each on a machine of its own.
    pub(super) ranks: u64,
    /// Sums of a step, in seconds.
    pub(super) exchange_seconds: f64,
    /// Target tokens a second of a rank, as a share of its rate alone with as many micro-batches in
    /// a step, for each of [`COLUMNS`].
    pub(super) efficiency: [f64; COLUMNS.len()],
    /// The least `train.accumulate_steps` with which it is 0.9; all ranks together.
    pub(super) accumulate_steps: u64,
}

impl RanksReport {
    /// Estimates the efficiency of ranks that do this work over this network.
    pub(super) fn new(work: Work, network: Network) -> Self {
        let mut rows = Vec::new();
        let mut ranks = 2;
        while ranks <= MOST_RANKS {
            rows.push(row(work, network, ranks));
            ranks *= 2;
        }
        Self {
            network,
            work,
            rows,
        }
    }
}

fn row(work: Work, network: Network, ranks: u64) -> RanksRow {
    let exchange = exchange_seconds(work, network, ranks);
    let efficiency = COLUMNS.map(|micro_batches| {
        let alone = micro_batches as f64 * work.micro_batch_seconds + work.update_seconds;
        alone / (alone + exchange)
    });
    // `alone / (alone + exchange) = ADVISED`, solved for the number of micro-batches.
    let enough = exchange * ADVISED / (1.0 - ADVISED);
    let micro_batches = ((enough - work.update_seconds) / work.micro_batch_seconds)
        .ceil()
        .max(1.0) as u64;
    RanksRow {
        ranks,
        exchange_seconds: exchange,
        efficiency,
        accumulate_steps: micro_batches * ranks,
    }
}

/// The time of the sums of a step.
///
/// ```text
/// (3 buckets + 2) (N-1) latency + 2 (N-1)/N G (1/network + 1/host)
/// ```
///
/// Each bucket of the `G` bytes of gradients takes a meeting and two exchanges, with a message to
/// or from every other rank; two more meetings are for the losses and for whether a rank is to
/// stop. One bucket is on its way at a time, so that the network waits while the host adds.
fn exchange_seconds(work: Work, network: Network, ranks: u64) -> f64 {
    let values = work.parameters as f64;
    let others = (ranks - 1) as f64;
    let buckets = (values / bucket_len(ranks as usize) as f64).ceil().max(1.0);
    let messages = (3.0 * buckets + 2.0) * others * network.latency;
    let seconds_per_byte =
        1.0 / (network.bits_per_second / 8.0 * USABLE) + 1.0 / network.host_bytes_per_second;
    messages + 2.0 * others / ranks as f64 * values * work.bytes_per_value as f64 * seconds_per_byte
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work {
        parameters: 63_000_000,
        micro_batch_seconds: 0.9,
        update_seconds: 0.1,
        bytes_per_value: 4,
    };
    const NETWORK: Network = Network {
        bits_per_second: 10e9,
        latency: 30e-6,
        host_bytes_per_second: 5e9,
    };

    #[test]
    fn a_faster_network_and_more_micro_batches_are_worth_something() {
        let efficiency =
            |network, ranks, column: usize| row(WORK, network, ranks).efficiency[column];
        let fast = Network {
            bits_per_second: 100e9,
            latency: 5e-6,
            ..NETWORK
        };
        for ranks in [2, 8, 64, 1024] {
            assert!(efficiency(NETWORK, ranks, 0) < efficiency(NETWORK, ranks, 2));
            assert!(efficiency(NETWORK, ranks, 0) < efficiency(fast, ranks, 0));
        }
        assert!(efficiency(NETWORK, 64, 0) < efficiency(NETWORK, 2, 0));
        // By hand: half of 252 MB goes out twice over 1.125 GB/s, and through a host of 5 GB/s, in
        // 16 buckets.
        let seconds = 0.252 / 1.125 + 0.252 / 5.0 + 50.0 * 30e-6;
        assert!((row(WORK, NETWORK, 2).exchange_seconds / seconds - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_advice_has_the_efficiency_that_is_asked_for_and_no_less_has() {
        for ranks in [2, 16, 256] {
            let row = row(WORK, NETWORK, ranks);
            let of = |micro_batches: u64| {
                let alone = micro_batches as f64 * WORK.micro_batch_seconds + WORK.update_seconds;
                alone / (alone + row.exchange_seconds)
            };
            let micro_batches = row.accumulate_steps / ranks;
            assert!(
                of(micro_batches) >= ADVISED
                    && (micro_batches == 1 || of(micro_batches - 1) < ADVISED),
                "{row:?}"
            );
        }
    }
}
