//! Images as sequences of patches (Dosovitskiy et al., 2021, section 3.1), with a position for each
//! row and each column.

use burn::module::Module;
use burn::tensor::{Int, Tensor};

use crate::config::{ImageShape, PatchShape};
use crate::linear::Linear;
use crate::parameter::init::ParamInit;
use crate::position::LearnedPositions;

/// Cuts images into patches, and embeds each as a vector.
#[derive(Module, Debug)]
pub struct Patches {
    /// Projects the values of a patch to its vector.
    pub projection: Linear,
    /// A trained vector for each row of patches.
    pub row_position: LearnedPositions,
    /// A trained vector for each column of patches.
    pub column_position: LearnedPositions,
    #[module(skip)]
    shape: PatchShape,
}

impl Patches {
    /// A layer for images and patches of this size; `position_std` is the initial standard
    /// deviation of positions.
    pub fn new(shape: PatchShape, d_model: usize, position_std: f64, init: &mut ParamInit) -> Self {
        let [rows, columns] = shape.grid();
        Self {
            projection: Linear::new(shape.patch_len(), d_model, init),
            row_position: LearnedPositions::new(rows, d_model, position_std, init),
            column_position: LearnedPositions::new(columns, d_model, position_std, init),
            shape,
        }
    }

    /// Embeds each patch, row by row: the projection of its values plus its position.
    ///
    /// # Shapes
    /// - `pixels`: `[batch, height * width * channels]`; output: `[batch, patches, d_model]`
    pub fn forward(&self, pixels: Tensor<2, Int>) -> Tensor<3> {
        // Every row with every column: [rows, 1, d_model] + [1, columns, d_model].
        let positions = self.row_position.weight.val().unsqueeze_dim::<3>(1)
            + self.column_position.weight.val().unsqueeze_dim::<3>(0);
        let positions: Tensor<3> = positions.flatten::<2>(0, 1).unsqueeze();
        self.projection.forward(self.values(pixels)) + positions
    }

    /// Scales bytes to values from -1 to 1, and orders them by patch, within a patch row by row.
    ///
    /// # Shapes
    /// - output: `[batch, patches, patch_size * patch_size * channels]`
    fn values(&self, pixels: Tensor<2, Int>) -> Tensor<3> {
        let PatchShape {
            image: ImageShape { channels, .. },
            patch_size,
        } = self.shape;
        let [batch, _] = pixels.dims();
        let [rows, columns] = self.shape.grid();
        let values = pixels.float() / 127.5 - 1.0;
        let lines: Tensor<5> =
            values.reshape([batch, rows, patch_size, columns, patch_size * channels]);
        lines
            .swap_dims(2, 3)
            .reshape([batch, rows * columns, self.shape.patch_len()])
    }
}
