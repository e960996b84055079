//! The arithmetic of recurrent cells, forward and backward, for the rows of a task at one position.
//!
//! The formulas are those of [`crate::recurrent`]. A row of `p` or `u` is `[gates, width]`: all
//! elements of a gate are neighbors, so every loop goes along the width and vectorizes. States are
//! `[states, width]` in the same way.
//!
//! Forward, the gates of a row go into a buffer, from which the new state overwrites the old one.
//! Backward, the gates are computed again, into the memory where their gradients belong: an
//! element's gates are all read before its gradients are written, so no other buffer is needed.

use crate::Cell;
use crate::flex::vector::{Kernel, LANES, sigmoid, tanh};

/// Rows in a slice: row `i` begins at element `i * stride`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    /// Begins with the first element of row 0.
    pub(super) values: &'a [f32],
    /// Elements from one row to the next.
    pub(super) stride: usize,
}

/// [`Rows`] to write to.
#[derive(Debug)]
pub(super) struct RowsMut<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) stride: usize,
}

impl<'a> Rows<'a> {
    /// The rows of a contiguous matrix with rows of `stride`, from row `first` on.
    pub(super) fn from(values: &'a [f32], first: usize, stride: usize) -> Self {
        Self {
            values: &values[first * stride..],
            stride,
        }
    }

    /// The first `width` elements of a row.
    #[inline(always)]
    fn row(self, row: usize, width: usize) -> &'a [f32] {
        &self.values[row * self.stride..][..width]
    }
}

impl RowsMut<'_> {
    /// The first `width` elements of a row.
    #[inline(always)]
    fn row(&mut self, row: usize, width: usize) -> &mut [f32] {
        &mut self.values[row * self.stride..][..width]
    }
}

/// Overwrites states with those after one more position.
pub(super) struct Step<'a> {
    pub(super) cell: Cell,
    pub(super) width: usize,
    /// `p`.
    pub(super) projected: Rows<'a>,
    /// `u`.
    pub(super) recurrent: Rows<'a>,
    /// Contiguous, `[rows, states * width]`.
    pub(super) states: &'a mut [f32],
    /// Whether the position is padding, for each row; empty without padding. Padding leaves a state
    /// as it is.
    pub(super) padding: &'a [bool],
}

impl Kernel for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            cell,
            width,
            projected,
            recurrent,
            states,
            padding,
        } = self;
        let gates_len = cell.gates() * width;
        // One allocation for all rows of the task.
        let mut gates = vec![0.0; gates_len];
        for (row, state) in states.chunks_exact_mut(cell.states() * width).enumerate() {
            if padding.get(row) == Some(&true) {
                continue;
            }
            let projected = projected.row(row, gates_len);
            let recurrent = recurrent.row(row, gates_len);
            match cell {
                Cell::Tanh => tangents(projected, recurrent, state),
                Cell::Gru => {
                    gru_gates(projected, recurrent, &mut gates, width);
                    gru(&gates, state);
                }
                Cell::Lstm => {
                    lstm_gates(projected, recurrent, &mut gates, width);
                    lstm(&gates, state);
                }
            }
        }
    }
}

/// The new state of a GRU, given `r`, `z` and `n`.
#[inline(always)]
fn gru(gates: &[f32], state: &mut [f32]) {
    // The reset gate, in front of these, has been applied to `n` already.
    let (update, new) = gates[state.len()..].split_at(state.len());
    for (state, (update, new)) in state.iter_mut().zip(update.iter().zip(new)) {
        // `(1 - z) n + z h` with one multiplication.
        *state = new + update * (*state - new);
    }
}

/// The new state of an LSTM, given `σ(i)`, `σ(f)`, `tanh(g)` and `σ(o)`.
#[inline(always)]
fn lstm(gates: &[f32], state: &mut [f32]) {
    let width = state.len() / 2;
    let (hidden, memory) = state.split_at_mut(width);
    let (input_forget, new_output) = gates.split_at(2 * width);
    let (input, forget) = input_forget.split_at(width);
    let (new, output) = new_output.split_at(width);
    // c' = σ(f) c + σ(i) tanh(g)
    let inputs = input.iter().zip(new);
    for ((memory, forget), (input, new)) in memory.iter_mut().zip(forget).zip(inputs) {
        *memory = forget * *memory + input * new;
    }
    // h' = σ(o) tanh(c')
    for ((hidden, memory), output) in hidden.iter_mut().zip(memory).zip(output) {
        *hidden = output * tanh(*memory);
    }
}

/// Overwrites the gradients of states with those of the states before, without their part through
/// the product `u`, and writes the gradients of `p` and `u`.
pub(super) struct StepBackward<'a> {
    pub(super) cell: Cell,
    pub(super) width: usize,
    /// `p`.
    pub(super) projected: Rows<'a>,
    /// `u`.
    pub(super) recurrent: Rows<'a>,
    /// The states before the position, `[rows, states * width]`.
    pub(super) states: Rows<'a>,
    /// The gradients of the states: contiguous, `[rows, states * width]`.
    pub(super) grads: &'a mut [f32],
    /// As in [`Step`].
    pub(super) padding: &'a [bool],
    /// The gradient of `p`; rows of padding are not written.
    pub(super) grad_projected: RowsMut<'a>,
    /// The gradient of `u`; rows of padding are not written.
    pub(super) grad_recurrent: RowsMut<'a>,
}

impl Kernel for StepBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            cell,
            width,
            projected,
            recurrent,
            states,
            grads,
            padding,
            ..
        } = self;
        let mut grad_projected = self.grad_projected;
        let mut grad_recurrent = self.grad_recurrent;
        let gates_len = cell.gates() * width;
        let state_len = cell.states() * width;
        for (row, grads) in grads.chunks_exact_mut(state_len).enumerate() {
            // Padding leaves the state as it is, so its gradient, too.
            if padding.get(row) == Some(&true) {
                continue;
            }
            let projected = projected.row(row, gates_len);
            let recurrent = recurrent.row(row, gates_len);
            let grad_projected = grad_projected.row(row, gates_len);
            let grad_recurrent = grad_recurrent.row(row, gates_len);
            let state = states.row(row, state_len);
            match cell {
                // The gates go where their gradients will be.
                Cell::Tanh => tangents(projected, recurrent, grad_projected),
                Cell::Gru => gru_gates(projected, recurrent, grad_projected, width),
                Cell::Lstm => lstm_gates(projected, recurrent, grad_projected, width),
            }
            // Arrays of `LANES` elements first, then one by one. Loops over six slices at once
            // would not be vectorized, since the compiler cannot tell that they do not overlap.
            let whole = width - width % LANES;
            for at in (0..whole).step_by(LANES) {
                match cell {
                    Cell::Tanh => tanh_backward::<LANES>(at, grads, grad_projected, grad_recurrent),
                    Cell::Gru => gru_backward::<LANES>(
                        at,
                        width,
                        recurrent,
                        state,
                        grads,
                        grad_projected,
                        grad_recurrent,
                    ),
                    Cell::Lstm => {
                        lstm_backward::<LANES>(
                            at,
                            width,
                            state,
                            grads,
                            grad_projected,
                            grad_recurrent,
                        );
                    }
                }
            }
            for at in whole..width {
                match cell {
                    Cell::Tanh => tanh_backward::<1>(at, grads, grad_projected, grad_recurrent),
                    Cell::Gru => gru_backward::<1>(
                        at,
                        width,
                        recurrent,
                        state,
                        grads,
                        grad_projected,
                        grad_recurrent,
                    ),
                    Cell::Lstm => {
                        lstm_backward::<1>(at, width, state, grads, grad_projected, grad_recurrent);
                    }
                }
            }
        }
    }
}

/// Computes `tanh(p + u)`, which is also the new state of a tanh network.
#[inline(always)]
fn tangents(projected: &[f32], recurrent: &[f32], states: &mut [f32]) {
    for (state, (projected, recurrent)) in states.iter_mut().zip(projected.iter().zip(recurrent)) {
        *state = tanh(projected + recurrent);
    }
}

/// Computes `r`, `z` and `n`.
#[inline(always)]
fn gru_gates(projected: &[f32], recurrent: &[f32], gates: &mut [f32], width: usize) {
    // `r` and `z`, in one loop.
    sigmoids(
        &projected[..2 * width],
        &recurrent[..2 * width],
        &mut gates[..2 * width],
    );
    // n = tanh(p_n + r u_n)
    let (gates, new) = gates.split_at_mut(2 * width);
    let sums = projected[2 * width..].iter().zip(&recurrent[2 * width..]);
    for ((new, (projected, recurrent)), reset) in new.iter_mut().zip(sums).zip(gates) {
        *new = tanh(projected + *reset * recurrent);
    }
}

/// Computes `σ(i)`, `σ(f)`, `tanh(g)` and `σ(o)`.
#[inline(always)]
fn lstm_gates(projected: &[f32], recurrent: &[f32], gates: &mut [f32], width: usize) {
    sigmoids(
        &projected[..2 * width],
        &recurrent[..2 * width],
        &mut gates[..2 * width],
    );
    sigmoids(
        &projected[3 * width..],
        &recurrent[3 * width..],
        &mut gates[3 * width..],
    );
    // The third block is `tanh(g)`, between the sigmoids.
    let new = 2 * width..3 * width;
    tangents(
        &projected[new.clone()],
        &recurrent[new.clone()],
        &mut gates[new],
    );
}

/// Computes `σ(p + u)`.
#[inline(always)]
fn sigmoids(projected: &[f32], recurrent: &[f32], gates: &mut [f32]) {
    for (gate, (projected, recurrent)) in gates.iter_mut().zip(projected.iter().zip(recurrent)) {
        *gate = sigmoid(projected + recurrent);
    }
}

/// `N` elements from `at` on, copied into registers, so that the compiler knows that no later write
/// changes them.
#[inline(always)]
fn load<const N: usize>(values: &[f32], at: usize) -> [f32; N] {
    let mut loaded = [0.0; N];
    loaded.copy_from_slice(&values[at..at + N]);
    loaded
}

/// Writes `N` elements from `at` on.
#[inline(always)]
fn store<const N: usize>(values: &mut [f32], at: usize, stored: [f32; N]) {
    values[at..at + N].copy_from_slice(&stored);
}

/// The gradients of a tanh network by the formula of [`crate::recurrent`], for `N` elements whose
/// new states are in `grad_projected`.
#[inline(always)]
fn tanh_backward<const N: usize>(
    at: usize,
    grads: &mut [f32],
    grad_projected: &mut [f32],
    grad_recurrent: &mut [f32],
) {
    let mut new = load::<N>(grad_projected, at);
    let grad = load::<N>(grads, at);
    for lane in 0..N {
        new[lane] = grad[lane] * (1.0 - new[lane] * new[lane]);
    }
    // The old state counts only through the product `u`, whose part is added later.
    store(grads, at, [0.0; N]);
    store(grad_projected, at, new);
    store(grad_recurrent, at, new);
}

/// The GRU's gradients by the formulas of [`crate::recurrent`], for `N` elements whose gates are in
/// `grad_projected`.
#[inline(always)]
fn gru_backward<const N: usize>(
    at: usize,
    width: usize,
    recurrent: &[f32],
    state: &[f32],
    grads: &mut [f32],
    grad_projected: &mut [f32],
    grad_recurrent: &mut [f32],
) {
    let reset_at = at;
    let update_at = width + at;
    let new_at = 2 * width + at;
    let mut reset = load::<N>(grad_projected, reset_at);
    let mut update = load::<N>(grad_projected, update_at);
    let mut new = load::<N>(grad_projected, new_at);
    let mut recurrent_new = load::<N>(recurrent, new_at);
    let state = load::<N>(state, at);
    let mut grad = load::<N>(grads, at);
    // Each array holds a gate before the loop, and its gradient after it.
    for lane in 0..N {
        let r = reset[lane];
        let z = update[lane];
        let n = new[lane];
        let s = grad[lane];
        new[lane] = s * (1.0 - z) * (1.0 - n * n);
        reset[lane] = new[lane] * recurrent_new[lane] * r * (1.0 - r);
        update[lane] = s * (state[lane] - n) * z * (1.0 - z);
        recurrent_new[lane] = new[lane] * r;
        grad[lane] = s * z;
    }
    store(grads, at, grad);
    store(grad_projected, reset_at, reset);
    store(grad_projected, update_at, update);
    store(grad_projected, new_at, new);
    store(grad_recurrent, reset_at, reset);
    store(grad_recurrent, update_at, update);
    store(grad_recurrent, new_at, recurrent_new);
}

/// The LSTM's gradients by the formulas of [`crate::recurrent`], for `N` elements whose gates are
/// in `grad_projected`.
#[inline(always)]
fn lstm_backward<const N: usize>(
    at: usize,
    width: usize,
    state: &[f32],
    grads: &mut [f32],
    grad_projected: &mut [f32],
    grad_recurrent: &mut [f32],
) {
    let old = load::<N>(state, width + at);
    let grad_hidden = load::<N>(grads, at);
    let mut grad_memory = load::<N>(grads, width + at);
    let mut gates = [[0.0; N]; 4];
    for (gate, values) in gates.iter_mut().enumerate() {
        *values = load(grad_projected, gate * width + at);
    }
    for lane in 0..N {
        let input = gates[0][lane];
        let forget = gates[1][lane];
        let new = gates[2][lane];
        let output = gates[3][lane];
        // `tanh(c')`: the new memory is computed again, as in the forward pass.
        let tangent = tanh(forget * old[lane] + input * new);
        let grad_new_memory =
            grad_memory[lane] + grad_hidden[lane] * output * (1.0 - tangent * tangent);
        gates[0][lane] = grad_new_memory * new * input * (1.0 - input);
        gates[1][lane] = grad_new_memory * old[lane] * forget * (1.0 - forget);
        gates[2][lane] = grad_new_memory * input * (1.0 - new * new);
        gates[3][lane] = grad_hidden[lane] * tangent * output * (1.0 - output);
        grad_memory[lane] = grad_new_memory * forget;
    }
    // The old hidden state counts only through the product `u`, whose part is added later.
    store(grads, at, [0.0; N]);
    store(grads, width + at, grad_memory);
    for (gate, values) in gates.into_iter().enumerate() {
        store(grad_projected, gate * width + at, values);
        store(grad_recurrent, gate * width + at, values);
    }
}
