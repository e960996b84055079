//! The connections of clients: their number, and the time that each may keep the server waiting.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Sleep;

/// The time until the next try to accept a connection after the system had no file descriptor or no
/// memory for one. Without it, the loop would try again and again at full speed.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// The connections of clients.
pub(crate) struct Connections {
    router: Router,
    /// The time within which the head of a request must arrive, also that of the next one on the
    /// same connection, and within which a client must take some of its answer.
    time: Duration,
    permits: Arc<Semaphore>,
    open: JoinSet<()>,
    /// Dropped when no more requests are accepted, which all connections see.
    accepting: watch::Sender<()>,
}

impl Connections {
    /// Accepts at most `max_open` at a time; the system keeps others waiting until one ends.
    pub(crate) fn new(router: Router, max_open: usize, time: Duration) -> Self {
        Self {
            router,
            time,
            permits: Arc::new(Semaphore::new(max_open)),
            open: JoinSet::new(),
            accepting: watch::channel(()).0,
        }
    }

    /// Accepts connections until the returned future is dropped.
    pub(crate) async fn accept(&mut self, listener: &TcpListener) -> Infallible {
        loop {
            let (stream, permit) = accept(listener, &self.permits).await;
            // Removes connections that have ended: a `JoinSet` keeps their results until then.
            while self.open.try_join_next().is_some() {}
            // Without it, the system holds back a part of a stream until the client has confirmed
            // that it received the part before.
            let _ = stream.set_nodelay(true);
            self.open.spawn(serve(
                stream,
                self.router.clone(),
                self.time,
                self.accepting.subscribe(),
                permit,
            ));
        }
    }

    /// Accepts no more requests, and returns when those that have arrived are answered. If its
    /// future is dropped before, connections that are still open are cut off.
    pub(crate) async fn finish(mut self) {
        drop(self.accepting);
        while self.open.join_next().await.is_some() {}
    }
}

/// Accepts a connection as soon as there is a permit for it.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    // The permit first: what is not accepted waits in the queue of the system, and takes no file
    // descriptor.
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            // That client is gone; others may be waiting.
            Err(error) if is_client_error(&error) => {}
            Err(error) => {
                tracing::warn!("cannot accept connections: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Returns whether an error concerns one client alone.
fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Answers the requests of a client until it disconnects, or until `accepting` is closed and the
/// request in progress is answered.
async fn serve(
    stream: TcpStream,
    router: Router,
    time: Duration,
    mut accepting: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
) {
    let stream = TokioIo::new(TimedStream {
        stream,
        time,
        deadline: None,
    });
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(time);
    let mut connection = pin!(builder.serve_connection(stream, TowerToHyperService::new(router)));
    // Errors of a connection, such as a client that sends no HTTP or disconnects, are not logged:
    // any client could fill the log with them.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = accepting.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A connection whose writes fail if the client takes nothing for `time`.
struct TimedStream {
    stream: TcpStream,
    time: Duration,
    /// When the pending write fails; `None` while none is pending.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    /// Returns the result of a write, or an error if writes have been pending for too long.
    fn with_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let time = self.time;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        // Polling the timer registers the task with it, so that it wakes up also if the client
        // never does anything.
        deadline
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.with_timeout(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.with_timeout(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
