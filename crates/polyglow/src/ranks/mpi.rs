//! The group of the processes of MPI: the only file that knows it.
//!
//! MPI waits in a loop that keeps a core busy, and without a limit. So all ranks meet before they
//! exchange anything: each sends rank 0 a message, and sleeps until rank 0 answers that all are
//! there. The error after the limit then has the name of the rank that is missing.

mod patience;
mod sums;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use anyhow::anyhow;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::{Universe, processor_name};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};
use polyglow_model::Precision;
use polyglow_predict::error::Result;
use polyglow_predict::group::{Group, Times};

use super::cores::Cores;
use super::version;
use crate::failure;
use patience::Patience;
use sums::{add, add_rounded};

/// MPI while it runs. A static is not dropped when a panic unwinds: that would end MPI, which waits
/// for ranks that wait for us.
static UNIVERSE: Mutex<Option<Universe>> = Mutex::new(None);

/// This process among the others, once it has met them.
static WORLD: OnceLock<Arc<World>> = OnceLock::new();

/// Tags of the messages of a meeting: a rank is there, and all ranks are.
const HERE: i32 = 1;
const GO: i32 = 2;

/// Values that are summed at a time: 32 MiB, so that what MPI counts fits its integers and the
/// buffers stay small.
const PIECE: usize = 1 << 23;

/// Bytes that all ranks together exchange at a time, because MPI counts them in 32 bits.
const PARCEL: usize = 1 << 30;

/// The time for which a rank with an error lets rank 0 speak first.
const COURTESY: Duration = Duration::from_secs(1);

/// The time between two looks at whether an exchange hangs.
const WATCH: Duration = Duration::from_millis(500);

/// The time by which the other ranks wait longer than rank 0: only rank 0 knows which rank is
/// missing, so its error has to come first.
const GRACE: Duration = Duration::from_secs(10);

/// The processes of MPI.
struct World {
    rank: usize,
    size: usize,
    local_rank: usize,
    local_size: usize,
    /// The machine of each rank.
    hosts: Vec<String>,
    cores: Vec<Cores>,
    times: Mutex<Times>,
    limit: Mutex<Duration>,
    /// Since when this rank is in an exchange, where MPI waits without end.
    since: Mutex<Option<Instant>>,
}

/// Lets Open MPI connect two machines twice, unless the environment says otherwise: one connection
/// of its 4.1 gives six tenths of a network of 1 Gbit/s when both send, two give all of it
/// (docs/cluster.md). Other libraries do not read this.
#[expect(
    unsafe_code,
    reason = "Open MPI reads its settings from the environment"
)]
fn use_the_whole_network() {
    const CONNECTIONS: &str = "OMPI_MCA_btl_tcp_links";
    if std::env::var_os(CONNECTIONS).is_none() {
        // SAFETY: no other thread reads the environment: this comes before everything else.
        unsafe { std::env::set_var(CONNECTIONS, "2") };
    }
}

/// Starts MPI with as many ranks as a launcher says there are, and deals the cores of a machine to
/// its ranks.
pub(super) fn start(launched: usize) -> anyhow::Result<Arc<dyn Group>> {
    use_the_whole_network();
    // Gradients are exchanged in a thread of their own, but never in two threads at once.
    let started = mpi::initialize_with_threading(Threading::Serialized);
    let (universe, threading) = started.ok_or_else(|| anyhow!("MPI has been started before"))?;
    let world = universe.world();
    *locked(&UNIVERSE) = Some(universe);
    let local = world.split_shared(world.rank());
    let mut group = World {
        rank: world.rank() as usize,
        size: world.size() as usize,
        local_rank: local.rank() as usize,
        local_size: local.size() as usize,
        hosts: Vec::new(),
        cores: Vec::new(),
        times: Mutex::default(),
        limit: Mutex::new(Duration::MAX),
        since: Mutex::default(),
    };
    if group.size != launched {
        let error = anyhow!(
            "a launcher has started {launched} processes, and this one finds {} by MPI",
            group.size
        );
        let advice = "use the `mpirun` of the MPI that polyglow was built with, or with `srun` the right `--mpi`";
        return Err(failure::with_hint(error, advice));
    }
    anyhow::ensure!(
        threading >= Threading::Serialized,
        "this MPI knows no threads: it gives {threading:?}"
    );
    let host = processor_name().unwrap_or_default();
    // Versions come before anything else, since another version may exchange other messages.
    let versions = (&group as &dyn Group).gather(version::own())?;
    group.hosts = (&group as &dyn Group).gather(host.clone())?;
    if let Some(difference) = version::others(&versions, &group.hosts) {
        return Err(failure::with_hint(
            failure::usage(anyhow!(difference)),
            "install one version on all machines",
        ));
    }
    group.cores = (&group as &dyn Group).gather(Cores::of_this_process(host))?;
    // Building the pool fails if there are threads already, which then keep their number.
    let threads = group.cores[group.rank].threads(&group.cores);
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        let _ = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global();
    }
    let group = WORLD.get_or_init(|| Arc::new(group));
    thread::Builder::new()
        .name("ranks".to_owned())
        .spawn(|| WORLD.get().map(|world| world.watch()))?;
    Ok(Arc::clone(group) as Arc<dyn Group>)
}

/// Warns of machines whose cores are not used.
pub(super) fn warn() {
    let Some(world) = WORLD.get().filter(|world| world.rank == 0) else {
        return;
    };
    let warnings: BTreeSet<String> = world
        .cores
        .iter()
        .filter_map(|rank| rank.warning(&world.cores))
        .collect();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// Lets rank 0 say what is wrong in all ranks.
pub(super) fn let_first_speak() {
    if WORLD.get().is_some_and(|world| world.rank > 0) {
        thread::sleep(COURTESY);
    }
}

/// `rank 3 on HOST: `, or nothing of rank 0.
pub(super) fn prefix() -> String {
    match WORLD.get() {
        Some(world) if world.rank > 0 => format!("{}: ", (&**world as &dyn Group).name(world.rank)),
        _ => String::new(),
    }
}

/// Ends MPI in order, when all ranks do.
pub(super) fn end() {
    drop(locked(&UNIVERSE).take());
}

/// Ends all ranks at once.
pub(super) fn end_all(code: u8) {
    if let Some(universe) = locked(&UNIVERSE).take() {
        universe.world().abort(i32::from(code));
    }
}

/// Ends this process without MPI's own end, which would wait for the thread that hangs.
#[expect(
    unsafe_code,
    reason = "what the standard library has would first run what MPI wants to do at the end"
)]
fn end_process() -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(1) }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Waits until all ranks are there.
    fn meet(&self) -> Result<()> {
        let mut patience = Patience::new();
        let world = SimpleCommunicator::world();
        let limit = *locked(&self.limit);
        let mut signal = [0u8];
        if self.rank == 0 {
            let mut missing: Vec<usize> = (1..self.size).collect();
            while !missing.is_empty() {
                missing.retain(|&rank| {
                    let there = world
                        .process_at_rank(rank as i32)
                        .immediate_probe_with_tag(HERE)
                        .is_some();
                    if there {
                        world
                            .process_at_rank(rank as i32)
                            .receive_into_with_tag(&mut signal, HERE);
                    }
                    !there
                });
                if !missing.is_empty() {
                    patience.wait(limit, || self.names(&missing))?;
                }
            }
            for rank in 1..self.size {
                world
                    .process_at_rank(rank as i32)
                    .send_with_tag(&signal, GO);
            }
        } else {
            let first = world.process_at_rank(0);
            first.send_with_tag(&signal, HERE);
            while first.immediate_probe_with_tag(GO).is_none() {
                patience.wait(limit.saturating_add(GRACE), || self.names(&[0]))?;
            }
            first.receive_into_with_tag(&mut signal, GO);
        }
        self.count(|times| times.waiting += patience.since.elapsed());
        Ok(())
    }

    /// `rank 3 on a, rank 4 on b`.
    fn names(&self, ranks: &[usize]) -> String {
        ranks
            .iter()
            .map(|&rank| (self as &dyn Group).name(rank))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn count(&self, add: impl FnOnce(&mut Times)) {
        add(&mut locked(&self.times));
    }

    /// Runs an exchange once all ranks are there, and adds its time to those of this rank.
    fn together<T>(&self, exchange: impl FnOnce(&SimpleCommunicator) -> T) -> Result<T> {
        self.meet()?;
        let started = Instant::now();
        *locked(&self.since) = Some(started);
        let exchanged = exchange(&SimpleCommunicator::world());
        *locked(&self.since) = None;
        self.count(|times| times.exchanging += started.elapsed());
        Ok(exchanged)
    }

    /// Ends this process, and with it all others, when an exchange does not end: one of them hangs
    /// in the midst of it.
    fn watch(&self) {
        loop {
            thread::sleep(WATCH);
            let limit = *locked(&self.limit);
            // Rank 0 speaks first, if it is not the one that hangs.
            let patience = if self.rank == 0 {
                limit
            } else {
                limit.saturating_add(GRACE)
            };
            if locked(&self.since).is_some_and(|since| since.elapsed() > patience) {
                let seconds = limit.as_secs();
                tracing::error!(
                    "an exchange has not ended for {seconds} s (`train.rank_timeout`): a rank hangs in it"
                );
                end_process();
            }
        }
    }
}

/// The part of `len` bytes that is exchanged in a round of at most `most` bytes for each rank.
fn part(len: usize, round: usize, most: usize) -> Range<usize> {
    (round * most).min(len)..((round + 1) * most).min(len)
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {} of {}", self.rank, self.size)
    }
}

impl Group for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn local_rank(&self) -> usize {
        self.local_rank
    }

    fn local_size(&self) -> usize {
        self.local_size
    }

    fn all_gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.together(|world| {
            let mut lengths = vec![0u64; self.size];
            world.all_gather_into(&(own.len() as u64), &mut lengths[..]);
            let mut gathered = vec![Vec::new(); self.size];
            let most = PARCEL / self.size;
            let rounds = lengths
                .iter()
                .max()
                .map_or(0, |&longest| (longest as usize).div_ceil(most));
            for round in 0..rounds {
                let counts: Vec<i32> = lengths
                    .iter()
                    .map(|&len| part(len as usize, round, most).len() as i32)
                    .collect();
                let starts: Vec<i32> = counts
                    .iter()
                    .scan(0, |end, count| Some(std::mem::replace(end, *end + count)))
                    .collect();
                let mut all = vec![0u8; counts.iter().map(|&count| count as usize).sum()];
                let mut partition = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
                let own_part = &own[part(own.len(), round, most)];
                world.all_gather_varcount_into(own_part, &mut partition);
                let mut rest = &all[..];
                for (bytes, &count) in gathered.iter_mut().zip(&counts) {
                    let (next, later) = rest.split_at(count as usize);
                    bytes.extend_from_slice(next);
                    rest = later;
                }
            }
            gathered
        })
    }

    fn broadcast(&self, mut own: Vec<u8>) -> Result<Vec<u8>> {
        self.together(|world| {
            let first = world.process_at_rank(0);
            let mut length = own.len() as u64;
            first.broadcast_into(&mut length);
            own.resize(length as usize, 0);
            own.chunks_mut(PARCEL)
                .for_each(|part| first.broadcast_into(part));
            own
        })
    }

    /// Each rank gets its part of what all have, adds in the order of the ranks, and gives the sum
    /// to all: as many bytes as a ring sends, in an order that is always the same.
    fn sum(&self, values: &mut [f32], precision: Precision) -> Result<()> {
        self.together(|world| {
            // A multiple of the ranks, so that each has a part of the same size.
            for values in values.chunks_mut(PIECE / self.size * self.size) {
                match precision {
                    Precision::Bf16 => add_rounded(world, values, self.size),
                    // Configs with f16 here are refused.
                    Precision::F32 | Precision::F16 => add(world, values, self.size),
                }
            }
        })
    }

    fn hosts(&self) -> &[String] {
        &self.hosts
    }

    fn wait_at_most(&self, limit: Duration) -> Duration {
        std::mem::replace(&mut locked(&self.limit), limit)
    }

    fn take_times(&self) -> Times {
        std::mem::take(&mut locked(&self.times))
    }
}
