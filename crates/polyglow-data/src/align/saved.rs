//! The states of chains in files, so that an alignment that was interrupted is continued.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::{Aligner, Chain, ChainId, Direction, Marginals};
use crate::error::DataError;
use crate::file::{NewFile, remove_unfinished};

/// Time between two states of a chain.
const BETWEEN_SAVES: Duration = Duration::from_secs(30);
/// The time that passes before a state is saved, in times that the last one took: saving a large
/// text takes less than a twentieth of the time.
const SAVES_PER_TIME: u32 = 20;
/// The version of the states, and of what is drawn. Raise it with each change of either.
const VERSION: u8 = 1;
const BUFFER_BYTES: usize = 1 << 20;
/// The names of states, before the number of the chain.
const FORWARDS: &str = "forwards-";
const BACKWARDS: &str = "backwards-";
/// The bytes of a hash.
const HASH_BYTES: usize = 32;

/// A directory of the states of chains: a file for each, which begins with a hash of the text and
/// the settings, and ends with a hash of all before it.
pub struct SavedChains {
    dir: PathBuf,
    key: [u8; HASH_BYTES],
}

/// A finished part of the work of a thread.
enum Done {
    Restored(u64),
    Iteration,
}

/// Why a chain was not drawn to its end.
enum Halt {
    Stopped,
    Failed(DataError),
}

/// The progress of an alignment, in iterations of all its chains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlignProgress {
    /// Iterations that are done.
    pub done: u64,
    /// The iterations among them that were read from saved states.
    pub restored: u64,
    /// All iterations.
    pub all: u64,
}

impl SavedChains {
    /// Opens the directory of the states of an alignment, which need not be there.
    ///
    /// # Errors
    /// [`DataError::OtherAlignment`] if it has states of another text or with other settings.
    pub fn open(dir: &Path, aligner: &Aligner<'_>) -> Result<Self, DataError> {
        let saved = Self {
            dir: dir.to_owned(),
            key: key(aligner),
        };
        for id in aligner.ids() {
            if saved.is_foreign(&saved.path(id))? {
                return Err(DataError::OtherAlignment {
                    path: dir.to_owned(),
                });
            }
        }
        Ok(saved)
    }

    /// Draws the chains of an alignment, continues those that were begun, and saves their states
    /// every half minute and when `stop` is set; the result is then `None`. `on_progress` is called
    /// after each iteration of a chain.
    ///
    /// # Errors
    /// [`DataError::Io`] if a state cannot be read or written.
    pub fn align<'a>(
        &self,
        aligner: &'a Aligner<'a>,
        threads: usize,
        stop: &AtomicBool,
        mut on_progress: impl FnMut(AlignProgress),
    ) -> Result<Option<Marginals<'a>>, DataError> {
        fs::create_dir_all(&self.dir).map_err(DataError::io(&self.dir))?;
        let mut progress = AlignProgress {
            all: (aligner.ids().len() * aligner.schedule.iterations()) as u64,
            ..AlignProgress::default()
        };
        // Nearly without a queue: what is shown is what is done, and a request to stop is not late.
        let (sender, receiver) = mpsc::sync_channel(1);
        let result = thread::scope(|scope| {
            let aligning = scope.spawn(move || {
                aligner.align_with(threads, |id| {
                    let chain = self.restore(aligner, id).map_err(Halt::Failed)?;
                    // The receiver is there until the last sender has gone.
                    let send = |done| sender.send(done).map_or((), |()| ());
                    send(Done::Restored(chain.iteration() as u64));
                    self.draw(chain, id, stop, || send(Done::Iteration))
                })
            });
            for done in receiver {
                match done {
                    Done::Iteration => progress.done += 1,
                    Done::Restored(iterations) => {
                        progress.done += iterations;
                        progress.restored += iterations;
                    }
                }
                on_progress(progress);
            }
            aligning.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        match result {
            Ok(marginals) => Ok(Some(marginals)),
            Err(Halt::Stopped) => Ok(None),
            Err(Halt::Failed(error)) => Err(error),
        }
    }

    /// Removes the states, once their result is kept, and their directory if nothing else is in it.
    ///
    /// # Errors
    /// [`DataError::Io`] if they cannot be removed.
    pub fn remove(self) -> Result<(), DataError> {
        remove_unfinished(&self.dir, is_state).map_err(DataError::io(&self.dir))?;
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(DataError::io(&self.dir))?,
        };
        for entry in entries {
            let path = entry.map_err(DataError::io(&self.dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(is_state) && path.is_file() && !self.is_foreign(&path)? {
                fs::remove_file(&path).map_err(DataError::io(&path))?;
            }
        }
        match fs::remove_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed.map_err(DataError::io(&self.dir)),
        }
    }

    /// Draws a chain to its end.
    fn draw<'a>(
        &self,
        mut chain: Chain<'a>,
        id: ChainId,
        stop: &AtomicBool,
        on_iteration: impl Fn(),
    ) -> Result<Chain<'a>, Halt> {
        let mut saved = Instant::now();
        let mut pause = BETWEEN_SAVES;
        while !chain.is_done() {
            if stop.load(Ordering::Relaxed) {
                self.write(id, &chain).map_err(Halt::Failed)?;
                return Err(Halt::Stopped);
            }
            chain.advance();
            on_iteration();
            if saved.elapsed() >= pause || chain.is_done() {
                let start = Instant::now();
                self.write(id, &chain).map_err(Halt::Failed)?;
                saved = Instant::now();
                pause = BETWEEN_SAVES.max((saved - start) * SAVES_PER_TIME);
            }
        }
        Ok(chain)
    }

    /// Returns the chain as it was saved; one that was not, or whose file is damaged, begins anew.
    fn restore<'a>(&self, aligner: &'a Aligner<'a>, id: ChainId) -> Result<Chain<'a>, DataError> {
        let bytes = self.read(id)?;
        let chain = bytes.and_then(|bytes| {
            let (content, hash) = bytes.split_last_chunk::<HASH_BYTES>()?;
            let state = content.strip_prefix(&self.key)?;
            let is_whole = Sha256::digest(content)[..] == hash[..];
            is_whole.then(|| Chain::from_bytes(aligner, id, state))?
        });
        Ok(chain.unwrap_or_else(|| aligner.chain(id)))
    }

    fn write(&self, id: ChainId, chain: &Chain<'_>) -> Result<(), DataError> {
        let path = self.path(id);
        let new = NewFile::create(&path).map_err(DataError::io(&path))?;
        self.write_state(new.file(), chain)
            .and_then(|()| new.commit())
            .map_err(DataError::io(&path))
    }

    fn write_state(&self, file: &File, chain: &Chain<'_>) -> io::Result<()> {
        let hashed = HashedWriter {
            out: file,
            hasher: Sha256::new(),
        };
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, hashed);
        out.write_all(&self.key)?;
        chain.write(&mut out)?;
        out.flush()?;
        let hash = out.get_ref().hasher.clone().finalize();
        out.write_all(&hash)?;
        out.flush()
    }

    /// Whether a file is there that belongs to another alignment.
    fn is_foreign(&self, path: &Path) -> Result<bool, DataError> {
        let mut key = Vec::new();
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.and_then(|file| file.take(HASH_BYTES as u64).read_to_end(&mut key)),
        }
        .map_err(DataError::io(path))?;
        Ok(key != self.key)
    }

    /// Reads the file of a chain, if there is one.
    fn read(&self, id: ChainId) -> Result<Option<Vec<u8>>, DataError> {
        let path = self.path(id);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DataError::io(&path)(error)),
        }
    }

    fn path(&self, id: ChainId) -> PathBuf {
        let direction = match id.direction {
            Direction::Forwards => FORWARDS,
            Direction::Backwards => BACKWARDS,
        };
        self.dir.join(format!("{direction}{}", id.number + 1))
    }
}

/// Whether a file of that name is the state of a chain.
fn is_state(name: &str) -> bool {
    let number = name
        .strip_prefix(FORWARDS)
        .or_else(|| name.strip_prefix(BACKWARDS));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Hashes what is written.
struct HashedWriter<W> {
    out: W,
    hasher: Sha256,
}

impl<W: Write> Write for HashedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Hashes what decides the states of chains: the words of both sides as integers, the prior and the
/// seed. The number of chains changes none of them.
fn key(aligner: &Aligner<'_>) -> [u8; HASH_BYTES] {
    let mut hasher = Sha256::new();
    hasher.update([VERSION]);
    hasher.update(aligner.options.null.to_le_bytes());
    hasher.update(aligner.options.seed.to_le_bytes());
    for side in [&aligner.text.src, &aligner.text.tgt] {
        for sentence in 0..side.len() {
            let words = side.sentence(sentence);
            hasher.update((words.len() as u32).to_le_bytes());
            for word in words {
                hasher.update(word.to_le_bytes());
            }
        }
    }
    hasher.finalize().into()
}
