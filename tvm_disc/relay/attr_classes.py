"""The attribute classes of TVM's operators, for writing JSON that TVM reads.

Each row names a class, its fields that JSON stores as plain text (other fields are nodes), and the
operators whose calls carry the class. An operator without a row has no attributes, or none that
TVM can read.
"""

from __future__ import annotations

from collections.abc import Mapping

# Format: ``<name>: plain fields: operators`` for ``relay.attrs.<name>Attrs``. An indented line
# continues a row.
_ROWS = """
AdaptivePool1D: layout: nn.adaptive_avg_pool1d nn.adaptive_max_pool1d
AdaptivePool2D: layout: nn.adaptive_avg_pool2d nn.adaptive_max_pool2d
AdaptivePool3D: layout: nn.adaptive_avg_pool3d nn.adaptive_max_pool3d
AffineGrid: : image.affine_grid
AllClassNonMaximumSuppression: output_format: vision.all_class_non_max_suppression
Arange: dtype: arange
ArgReduce: exclude keepdims select_last_index: argmax argmin
Argsort: axis dtype is_ascend: argsort sort
AvgPool1D: ceil_mode count_include_pad layout: nn.avg_pool1d
AvgPool2D: ceil_mode count_include_pad: nn.avg_pool2d nn.avg_pool2d_grad qnn.avg_pool2d
AvgPool3D: ceil_mode count_include_pad layout: nn.avg_pool3d
BatchMatmul: out_dtype transpose_a transpose_b: nn.batch_matmul qnn.batch_matmul
BatchNorm: axis center epsilon scale: nn.batch_norm
BatchToSpaceND: : nn.batch_to_space_nd
BiasAdd: axis: nn.bias_add
BinaryConv2D: activation_bits data_layout kernel_layout out_dtype pack_dtype unipolar
    weight_bits: nn.bitserial_conv2d
BinaryDense: data_bits out_dtype pack_dtype unipolar weight_bits: nn.bitserial_dense
BitPack: bit_axis bits name pack_axis pack_type: nn.bitpack
Broadcast: lhs_axis rhs_axis: qnn.add qnn.mul qnn.subtract
CallLowered: : call_lowered
Cast: dtype: cast reinterpret
Clip: a_max a_min: clip
Compiler: compiler: annotation.compiler_begin annotation.compiler_end
Concatenate: axis: concatenate qnn.concatenate
Conv1D: groups out_dtype: nn.conv1d
Conv1DTranspose: data_layout groups kernel_layout out_dtype out_layout: nn.conv1d_transpose
Conv2D: groups out_dtype: nn.contrib_conv2d_NCHWc
    nn.contrib_conv2d_gemm_without_weight_transform nn.contrib_depthwise_conv2d_NCHWc nn.conv2d
    nn.conv2d_backward_weight qnn.conv2d
Conv2DTranspose: data_layout groups kernel_layout out_dtype out_layout: nn.conv2d_transpose
    qnn.conv2d_transpose
Conv2DWinograd: groups out_dtype tile_size: nn.contrib_conv2d_winograd_without_weight_transform
Conv2DWinogradNNPACKWeightTransform: convolution_algorithm out_dtype:
    nn.contrib_conv2d_winograd_nnpack_weight_transform
Conv3D: groups out_dtype: nn.conv3d
Conv3DTranspose: groups out_dtype: nn.conv3d_transpose
Conv3DWinograd: data_layout groups kernel_layout out_dtype out_layout tile_size:
    nn.contrib_conv3d_winograd_without_weight_transform
ConvGemmWeightTransform: tile_K tile_N: nn.contrib_conv2d_gemm_weight_transform
ConvWinogradWeightTransform: tile_size: nn.contrib_conv2d_winograd_weight_transform
    nn.contrib_conv3d_winograd_weight_transform
Correlation: is_multiply kernel_size max_displacement stride1 stride2: nn.correlation
CropAndResize: extrapolation_value layout method out_dtype: image.crop_and_resize
DFT: : dft
DeformableConv2D: data_layout deformable_groups groups kernel_layout out_dtype out_layout:
    nn.deformable_conv2d
Dense: out_dtype: nn.contrib_dense_pack nn.dense qnn.dense
DensePack: out_dtype: qnn.contrib_dense_pack
Dequantize: axis out_dtype: qnn.dequantize
Dilate: dilation_value: nn.dilate
Dilation2D: data_layout kernel_layout out_dtype: image.dilation2d
Dropout: rate: nn.dropout
DynExpandDims: num_newaxis: dyn.expand_dims
Einsum: : einsum
ExpandDims: axis num_newaxis: expand_dims
FIFOBuffer: axis: nn.fifo_buffer
FixedPointMultiply: multiplier shift: fixed_point_multiply
FixedPointMultiplyPerAxis: is_lshift_required is_rshift_required: fixed_point_multiply_per_axis
Gather: : gather
GatherND: : gather_nd
GetValidCounts: id_index score_index: vision.get_valid_counts
GlobalPool2D: : nn.global_avg_pool2d nn.global_max_pool2d
GridSample: align_corners: image.grid_sample
GroupNorm: axis center epsilon num_groups scale: nn.group_norm
InitOp: dtype: broadcast_to dyn.broadcast_to dyn.full dyn.ones dyn.zeros full ones zeros
InstanceNorm: axis center epsilon scale: nn.instance_norm
L2Normalize: eps: nn.l2_normalize
LRN: alpha axis beta bias size: nn.lrn
LayerNorm: axis center epsilon scale: nn.layer_norm
LayoutTransform: dst_layout src_layout: layout_transform
LeakyRelu: alpha: nn.leaky_relu qnn.leaky_relu
Matmul: out_dtype transpose_a transpose_b: nn.matmul
MatrixSetDiag: k1 k2 sub_diag_right_align super_diag_right_align: matrix_set_diag
MaxPool1D: ceil_mode layout: nn.max_pool1d
MaxPool2D: ceil_mode: nn.max_pool2d nn.max_pool2d_grad
MaxPool3D: ceil_mode layout: nn.max_pool3d
Meshgrid: indexing: meshgrid
MirrorPad: mode: nn.mirror_pad
MultiBoxPrior: clip: vision.multibox_prior
MultiBoxTransformLoc: clip keep_background threshold: vision.multibox_transform_loc
Multinomial: : random.multinomial
NLLLoss: ignore_index reduction: nn.nll_loss
NdarraySize: dtype: ndarray_size
NonMaximumSuppression: force_suppress top_k coord_start score_index id_index return_indices
    invalid_to_bottom: vision.non_max_suppression
Normal: out_dtype: random.normal
OnDevice: constrain_body constrain_result: on_device
OneHot: axis depth dtype: dyn.one_hot one_hot
PRelu: axis: nn.prelu
Pad: : dyn.nn.pad nn.pad
Proposal: feature_stride iou_loss rpn_min_size rpn_post_nms_top_n rpn_pre_nms_top_n threshold:
    vision.proposal
Quantize: axis out_dtype: qnn.quantize
ROIAlign: layout mode sample_ratio spatial_scale: vision.roi_align
ROIPool: layout spatial_scale: vision.roi_pool
Reduce: exclude keepdims: all any max mean min prod sum
RegularNonMaximumSuppression: iou_threshold max_detections max_detections_per_class num_classes
    score_threshold: vision.regular_non_max_suppression
Repeat: : repeat
Requantize: axis compute_dtype out_dtype rounding: qnn.requantize
Reshape: allowzero: contrib_reverse_reshape dyn.reshape reshape
ReshapeLike: lhs_begin rhs_begin: reshape_like
Resize1D: coordinate_transformation_mode cubic_alpha cubic_exclude extrapolation_value layout
    method out_dtype rounding_method: image.resize1d
Resize2D: coordinate_transformation_mode cubic_alpha cubic_exclude extrapolation_value layout
    method out_dtype rounding_method: dyn.image.resize2d image.resize2d
Resize3D: coordinate_transformation_mode cubic_alpha cubic_exclude extrapolation_value layout
    method out_dtype rounding_method: image.resize3d
Reverse: : reverse
ReverseSequence: : reverse_sequence
Scanop: dtype: cumprod cumsum
ScatterElements: : scatter_elements
ScatterND: : scatter_nd
SearchSorted: dtype right: searchsorted
SequenceMask: axis mask_value: sequence_mask
ShapeOf: dtype: shape_of vm.shape_of
SimulatedQuantize: axis: qnn.simulated_quantize
SliceLike: : slice_like
SlidingWindow: axis: sliding_window
Softmax: axis: nn.fast_softmax nn.log_softmax nn.softmax qnn.softmax
SpaceToBatchND: pad_value: nn.space_to_batch_nd
SparseConv2D: layout: nn.sparse_conv2d
SparseDense: sparse_lhs: nn.internal.sparse_dense_padded nn.sparse_dense
SparseToDense: : sparse_to_dense
SparseTranspose: : nn.sparse_transpose
Split: axis: split
Squeeze: : dyn.squeeze squeeze
Stack: : stack
Stft: hop_length n_fft normalized onesided win_length: stft
StridedSlice: : dyn.strided_slice strided_slice
SubPixel: block_size layout mode: nn.depth_to_space nn.space_to_depth
Take: : take
ThreefryGenerate: : random.threefry_generate
Tile: : dyn.tile tile
Topk: axis dtype is_ascend ret_type: dyn.topk topk
Transpose: : transpose
Trilu: upper: trilu
Uniform: out_dtype: random.uniform
Unique: sorted return_counts: unique
UpSampling: align_corners scale_h scale_w: dyn.nn.upsampling nn.upsampling
UpSampling3D: coordinate_transformation_mode layout method scale_d scale_h scale_w:
    dyn.nn.upsampling3d nn.upsampling3d
Variance: exclude keepdims unbiased: variance
YoloReorg: : vision.yolo_reorg
"""

_TABLE = [row.split(":") for row in _ROWS.replace("\n    ", " ").strip().splitlines()]
PLAIN: Mapping[str, frozenset[str]] = {name: frozenset(f.split()) for name, f, _ in _TABLE}
CLASS_OF: Mapping[str, str] = {op: name for name, _, ops in _TABLE for op in ops.split()}

__all__ = ["CLASS_OF", "PLAIN"]
