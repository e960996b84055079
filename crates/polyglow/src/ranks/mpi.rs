//! The group of the processes of MPI: the only file that knows it.
//!
//! MPI waits in a loop that keeps a core busy, and for ever. So all ranks meet before they exchange
//! anything: each tells rank 0 that it is there, and sleeps in between until rank 0 says that all
//! are. Who does not come has a name then.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use anyhow::anyhow;
use half::bf16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::{Universe, processor_name};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};
use polyglow_model::Precision;
use polyglow_predict::error::Result;
use polyglow_predict::group::{Group, Times};
use polyglow_train::TrainError;

use super::cores::Cores;
use super::version;
use crate::failure;

/// MPI while it runs. A static is not dropped when a panic unwinds: that would end MPI, which waits
/// for ranks that wait for us.
static UNIVERSE: Mutex<Option<Universe>> = Mutex::new(None);

/// This process among the others, once it has met them.
static WORLD: OnceLock<Arc<World>> = OnceLock::new();

/// Tags of messages between two ranks: that one is there, and that all are.
const HERE: i32 = 1;
const GO: i32 = 2;

/// Values that are summed at a time: 32 MiB, so that what MPI counts fits its integers and the
/// buffers stay small.
const PIECE: usize = 1 << 23;

/// Bytes that a rank gives at a time, over all ranks.
const PARCEL: usize = 1 << 30;

/// How long a rank with an error lets rank 0 speak first.
const COURTESY: Duration = Duration::from_secs(1);

/// How long ranks wait before they say for whom.
const IMPATIENCE: Duration = Duration::from_mins(1);

/// How often it is looked whether an exchange hangs.
const WATCH: Duration = Duration::from_millis(500);

/// How much longer the others wait for rank 0 than that for them, so that its message, which has
/// the name, is the one.
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

/// Lets Open MPI connect two machines twice, if nobody has said otherwise: one connection of its
/// 4.1 gives six tenths of a network of 1 Gbit/s when both send, two give all of it
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
    // A thread of its own exchanges gradients, but never two at once.
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
    // Versions come before anything else, since another one may exchange other things.
    let versions = (&group as &dyn Group).gather(version::own())?;
    group.hosts = (&group as &dyn Group).gather(host.clone())?;
    if let Some(difference) = version::others(&versions, &group.hosts) {
        return Err(failure::with_hint(
            failure::usage(anyhow!(difference)),
            "install one version on all machines",
        ));
    }
    group.cores = (&group as &dyn Group).gather(Cores::of_this_process(host))?;
    // It fails where there are threads already, which then keep their number.
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

/// A reason to look at the clock less and less often: what is near comes at once, and what is far
/// does not keep a core busy.
struct Patience {
    since: Instant,
    warned: bool,
}

impl Patience {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            warned: false,
        }
    }

    /// Sleeps a little; `Err` after the limit.
    fn wait(&mut self, limit: Duration, whom: impl Fn() -> String) -> Result<()> {
        let waited = self.since.elapsed();
        if waited > limit {
            let (whom, seconds) = (whom(), limit.as_secs());
            return Err(TrainError::new(format!(
                "no sign of {whom} for {seconds} s (`train.rank_timeout`)"
            )));
        }
        if waited > IMPATIENCE && !self.warned {
            self.warned = true;
            tracing::warn!("waiting for {} since {} s", whom(), waited.as_secs());
        }
        if waited < Duration::from_micros(200) {
            thread::yield_now();
        } else {
            // A fiftieth of what has been waited is no loss; a millisecond frees the core.
            thread::sleep((waited / 50).min(Duration::from_millis(1)));
        }
        Ok(())
    }
}

/// Ends this process without a word to MPI, in which another thread waits.
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
        let (mut patience, world) = (Patience::new(), SimpleCommunicator::world());
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

    /// Does something with all others once they are there, and notes how long it took.
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
            let mut told = vec![Vec::new(); self.size];
            let most = PARCEL / self.size;
            let rounds = lengths
                .iter()
                .max()
                .map_or(0, |&longest| (longest as usize).div_ceil(most));
            for round in 0..rounds {
                let part = |len: usize| (round * most).min(len)..((round + 1) * most).min(len);
                let counts: Vec<i32> = lengths
                    .iter()
                    .map(|&len| part(len as usize).len() as i32)
                    .collect();
                let starts: Vec<i32> = counts
                    .iter()
                    .scan(0, |end, count| Some(std::mem::replace(end, *end + count)))
                    .collect();
                let mut all = vec![0u8; counts.iter().map(|&count| count as usize).sum()];
                let mut places = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
                world.all_gather_varcount_into(&own[part(own.len())], &mut places);
                let mut rest = &all[..];
                for (told, &count) in told.iter_mut().zip(&counts) {
                    let (bytes, later) = rest.split_at(count as usize);
                    told.extend_from_slice(bytes);
                    rest = later;
                }
            }
            told
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

/// Replaces values by their sums over so many ranks.
fn add(world: &SimpleCommunicator, values: &mut [f32], ranks: usize) {
    let mut received = vec![0f32; values.len()];
    world.all_to_all_into(&*values, &mut received[..]);
    let (sum, others) = received.split_at_mut(values.len() / ranks);
    for other in others.chunks_exact(sum.len()) {
        sum.iter_mut()
            .zip(other)
            .for_each(|(sum, value)| *sum += value);
    }
    world.all_gather_into(&*sum, values);
}

/// As [`add`], with values and sums that are rounded to bf16.
fn add_rounded(world: &SimpleCommunicator, values: &mut [f32], ranks: usize) {
    let mut own = vec![bf16::ZERO; values.len()];
    own.convert_from_f32_slice(values);
    let mut received = vec![0u16; values.len()];
    world.all_to_all_into(own.reinterpret_cast(), &mut received[..]);
    let part = values.len() / ranks;
    let sum = &mut values[..part];
    let mut parts = received.reinterpret_cast::<bf16>().chunks_exact(part);
    if let Some(first) = parts.next() {
        first.convert_to_f32_slice(sum);
    }
    for other in parts {
        sum.iter_mut()
            .zip(other)
            .for_each(|(sum, value)| *sum += value.to_f32());
    }
    let mut rounded = vec![bf16::ZERO; part];
    rounded.convert_from_f32_slice(sum);
    world.all_gather_into(rounded.reinterpret_cast(), own.reinterpret_cast_mut());
    own.convert_to_f32_slice(values);
}
