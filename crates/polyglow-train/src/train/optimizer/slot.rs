//! What is kept of parameters: of one, or of several that are updated together.

use burn::tensor::{Tensor, TensorData, Transaction};
use polyglow_kernels::{Factors, RoundedOnce, joined};

use super::update::decays;
use super::{Parameter, UpdateRule};

/// The most numbers that are updated together: what takes 128 MiB, every driver gives a kernel as
/// one tensor.
const MOST_NUMBERS: usize = 1 << 25;
/// Numbers of a row by which squares are summed, if there are as many.
const ROW: usize = 1024;
/// A view must begin at a multiple of so many numbers, and end so far from its tensor's end, or it
/// is a copy: 256 bytes, in 16 bits as well. CUDA asks for 512: a rounded embedding beside an odd
/// number of vectors of 128 numbers is a copy there.
const ALIGNMENT: usize = 128;

/// Parameters that are updated together, and what is kept of them, one after the other.
#[derive(Debug)]
pub(super) struct Slot {
    pub members: Vec<Member>,
    /// The parts of the state, flat.
    pub state: Vec<Tensor<1>>,
    /// The exponential moving average, flat.
    pub ema: Option<Tensor<1>>,
    /// The parameters as the last update left them, if there are several.
    pub left: Option<Left>,
}

/// Parameters that an update has left, of which those of the model are parts.
#[derive(Debug)]
pub(super) struct Left {
    pub values: Tensor<1>,
    /// What the parameters of the model are called, by which they are known again.
    pub names: Vec<Option<u64>>,
}

/// One parameter.
#[derive(Debug)]
pub(super) struct Member {
    /// Its place in the model.
    pub index: usize,
    pub name: String,
    pub shape: Vec<usize>,
}

impl Member {
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The name of a part of the state in checkpoints.
    pub(super) fn part(&self, part: &str) -> String {
        format!("{part}.{}", self.name)
    }

    pub(super) fn decays(&self) -> bool {
        decays(&self.name, self.shape.len())
    }
}

impl Slot {
    /// The length of the rows by which squares are summed.
    pub(super) fn row(&self) -> usize {
        let len: usize = self.members.iter().map(Member::len).sum();
        ROW.min(1 << len.trailing_zeros().min(30))
    }

    /// The part of each member of flat values.
    pub(super) fn parts(&self, values: &Tensor<1>) -> Vec<Tensor<1>> {
        if let [_] = &self.members[..] {
            return vec![values.clone()];
        }
        let mut first = 0;
        let part = |member: &Member| {
            first += member.len();
            values.clone().narrow(0, first - member.len(), member.len())
        };
        self.members.iter().map(part).collect()
    }

    /// Rounds the weights that the last update left together.
    pub(super) fn round(&self, rounded: &RoundedOnce, factors: Factors) {
        let Some(Left { values, names }) = &self.left else {
            return;
        };
        let matrix = |member: &Member| <[usize; 2]>::try_from(&*member.shape).ok();
        if factors == Factors::F32 || !self.members.iter().any(|member| matrix(member).is_some()) {
            return;
        }
        let parts = self.parts(&factors.rounded(values.clone()));
        for ((member, name), part) in self.members.iter().zip(names).zip(parts) {
            if let (Some(shape), Some(name)) = (matrix(member), name) {
                rounded.keep(*name, factors, part.reshape(shape));
            }
        }
    }

    /// The part of each member of several flat values, all read together.
    pub(super) fn read(&self, all: &[&Tensor<1>]) -> Vec<(&Member, Vec<TensorData>)> {
        // A rule may keep less of a parameter than it has numbers, and then it is by itself.
        let parts: Vec<Vec<Tensor<1>>> = all.iter().map(|values| self.parts(values)).collect();
        let by_member = (0..self.members.len())
            .flat_map(|place| parts.iter().map(move |parts| parts[place].clone()));
        let mut read = by_member
            .fold(Transaction::default(), Transaction::register)
            .execute()
            .into_iter();
        self.members
            .iter()
            .map(|member| (member, read.by_ref().take(all.len()).collect()))
            .collect()
    }
}

/// The slots of all parameters; with `joins` parameters share them.
pub(super) fn slots(
    rule: &dyn UpdateRule,
    parameters: Vec<Parameter>,
    joins: bool,
    keeps_ema: bool,
) -> Vec<Slot> {
    let mut all: Vec<(Vec<Member>, Vec<Tensor<1>>)> = Vec::new();
    // The open slots of parameters that do not decay, and of those that do; each of those that
    // would shift others, and of the rest.
    let mut open = [[None; 2]; 2];
    for (
        index,
        Parameter {
            name,
            shape,
            value,
            is_frozen,
            ..
        },
    ) in parameters.into_iter().enumerate()
    {
        let member = Member { index, name, shape };
        let open = &mut open[usize::from(member.decays())]
            [usize::from(member.len().is_multiple_of(ALIGNMENT))];
        let fits = |place: usize| {
            let len: usize = all[place].0.iter().map(Member::len).sum();
            len + member.len() <= MOST_NUMBERS
        };
        let place = open.filter(|&place: &usize| joins && !is_frozen && fits(place));
        let place = place.unwrap_or_else(|| {
            all.push(Default::default());
            all.len() - 1
        });
        all[place].0.push(member);
        all[place].1.push(value);
        if !is_frozen {
            *open = Some(place);
        }
    }
    let slot = |(members, values): (Vec<Member>, Vec<Tensor<1>>)| {
        let mut lengths: Vec<usize> = Vec::new();
        for member in &members {
            let of_member = rule.state(&member.name, &member.shape);
            lengths.resize(of_member.len(), 0);
            lengths
                .iter_mut()
                .zip(of_member)
                .for_each(|(sum, (_, len))| *sum += len);
        }
        let device = values[0].device();
        let state = lengths
            .into_iter()
            .map(|len| Tensor::zeros([len], &device))
            .collect();
        Slot {
            members,
            state,
            ema: keeps_ema.then(|| joined(values)),
            left: None,
        }
    };
    all.into_iter().map(slot).collect()
}
