//! The state of a parameter, or of several that are updated together.

use burn::tensor::{Tensor, TensorData, Transaction};
use polyglow_kernels::{Factors, RoundedOnce, joined};

use super::update::decays;
use super::{Parameter, UpdateRule};

/// The most elements that are updated together: every driver lets a kernel bind their 128 MiB as
/// one tensor.
const MOST_ELEMENTS: usize = 1 << 25;
/// The elements of a row by which squares are summed, if there are as many.
const ROW: usize = 1024;
/// The elements to a multiple of which a view must begin, and end before its tensor's end, or it is
/// a copy: 256 bytes, in f16 as well. CUDA requires 512 bytes: a rounded embedding next to an odd
/// number of vectors of 128 elements is a copy there.
const ALIGNMENT: usize = 128;

/// Parameters that are updated together, with their state, one after the other.
#[derive(Debug)]
pub(super) struct Slot {
    pub members: Vec<Member>,
    /// The parts of the state, flat.
    pub state: Vec<Tensor<1>>,
    /// The exponential moving average, flat.
    pub ema: Option<Tensor<1>>,
    /// The result of the last update, if there are several parameters.
    pub updated: Option<Joined>,
}

/// The joined parameters after an update, of which those of the model are views.
#[derive(Debug)]
pub(super) struct Joined {
    pub values: Tensor<1>,
    /// The identities of the model's tensors, by which a replaced one is noticed.
    pub names: Vec<Option<u64>>,
}

/// One parameter.
#[derive(Debug)]
pub(super) struct Member {
    /// Its index in the model.
    pub index: usize,
    pub name: String,
    pub shape: Vec<usize>,
}

impl Member {
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the name of a part of the state in checkpoints.
    pub(super) fn part(&self, part: &str) -> String {
        format!("{part}.{}", self.name)
    }

    /// Returns the shape of a matrix, which linear maps round.
    fn matrix(&self) -> Option<[usize; 2]> {
        <[usize; 2]>::try_from(&*self.shape).ok()
    }

    pub(super) fn decays(&self) -> bool {
        decays(&self.name, self.shape.len())
    }
}

impl Slot {
    /// Returns the length of the rows by which squares are summed: the largest power of two up to
    /// [`ROW`] that divides the length.
    pub(super) fn row(&self) -> usize {
        let len: usize = self.members.iter().map(Member::len).sum();
        ROW.min(1 << len.trailing_zeros().min(30))
    }

    /// Cuts flat values into the part of each member.
    pub(super) fn parts(&self, values: &Tensor<1>) -> Vec<Tensor<1>> {
        // Whole: a rule may keep less state of a parameter than it has elements, and such a
        // parameter is by itself.
        if let [_] = &self.members[..] {
            return vec![values.clone()];
        }
        let mut parts = Vec::with_capacity(self.members.len());
        let mut first = 0;
        for member in &self.members {
            parts.push(values.clone().narrow(0, first, member.len()));
            first += member.len();
        }
        parts
    }

    /// Rounds the joined parameters in one operation, and keeps the matrices among them in
    /// `rounded`, where linear maps look for them.
    pub(super) fn round(&self, rounded: &RoundedOnce, factors: Factors) {
        let Some(Joined { values, names }) = &self.updated else {
            return;
        };
        let has_matrix = self.members.iter().any(|member| member.matrix().is_some());
        if factors == Factors::F32 || !has_matrix {
            return;
        }
        let parts = self.parts(&factors.rounded(values.clone()));
        for ((member, name), part) in self.members.iter().zip(names).zip(parts) {
            if let (Some(shape), Some(name)) = (member.matrix(), name) {
                rounded.keep(*name, factors, part.reshape(shape));
            }
        }
    }

    /// Reads several flat values in one transfer; returns each member with its part of every one.
    pub(super) fn read(&self, all: &[&Tensor<1>]) -> Vec<(&Member, Vec<TensorData>)> {
        let parts: Vec<Vec<Tensor<1>>> = all.iter().map(|values| self.parts(values)).collect();
        let mut transaction = Transaction::default();
        for index in 0..self.members.len() {
            for parts in &parts {
                transaction = transaction.register(parts[index].clone());
            }
        }
        let mut read = transaction.execute().into_iter();
        self.members
            .iter()
            .map(|member| (member, read.by_ref().take(all.len()).collect()))
            .collect()
    }
}

/// Parameters that a slot is to have, with their values.
#[derive(Default)]
struct Group {
    members: Vec<Member>,
    values: Vec<Tensor<1>>,
}

impl Group {
    fn has_room_for(&self, member: &Member) -> bool {
        let len: usize = self.members.iter().map(Member::len).sum();
        len + member.len() <= MOST_ELEMENTS
    }

    /// Makes the slot before its first step, with a state of zeros.
    fn into_slot(self, rule: &dyn UpdateRule, keeps_ema: bool) -> Slot {
        let mut lengths: Vec<usize> = Vec::new();
        for member in &self.members {
            let parts = rule.state(&member.name, &member.shape);
            lengths.resize(parts.len(), 0);
            for (sum, (_, len)) in lengths.iter_mut().zip(parts) {
                *sum += len;
            }
        }
        let device = self.values[0].device();
        let state = lengths
            .into_iter()
            .map(|len| Tensor::zeros([len], &device))
            .collect();
        Slot {
            members: self.members,
            state,
            ema: keeps_ema.then(|| joined(self.values)),
            updated: None,
        }
    }
}

/// Makes the slots of all parameters; with `joins`, parameters share them.
pub(super) fn slots(
    rule: &dyn UpdateRule,
    parameters: Vec<Parameter>,
    joins: bool,
    keeps_ema: bool,
) -> Vec<Slot> {
    let mut groups: Vec<Group> = Vec::new();
    // The index of the group that the next parameter of a kind joins. Kinds are kept apart by
    // weight decay, which is one value in a slot, and by length: a parameter that is no multiple of
    // the alignment would turn the views of those behind it into copies.
    let mut open: [[Option<usize>; 2]; 2] = [[None; 2]; 2];
    for (index, parameter) in parameters.into_iter().enumerate() {
        let is_frozen = parameter.is_frozen;
        let member = Member {
            index,
            name: parameter.name,
            shape: parameter.shape,
        };
        let is_aligned = member.len().is_multiple_of(ALIGNMENT);
        let open = &mut open[usize::from(member.decays())][usize::from(is_aligned)];
        let group = match *open {
            Some(group) if joins && !is_frozen && groups[group].has_room_for(&member) => group,
            _ => {
                groups.push(Group::default());
                groups.len() - 1
            }
        };
        groups[group].members.push(member);
        groups[group].values.push(parameter.value);
        if !is_frozen {
            *open = Some(group);
        }
    }
    groups
        .into_iter()
        .map(|group| group.into_slot(rule, keeps_ema))
        .collect()
}
