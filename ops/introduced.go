package ops

import "strings"

// introduced lists the ops of Fluid by the releases in which they first occur. Names of EDL are not in it. Gradients are as old as their forward ops.
var introduced = []struct{ releases, ops string }{
	{"0.11", `accuracy adadelta adagrad adam adamax array_to_lod_tensor assign auc batch_norm beam_search beam_search_decode bilinear_tensor_product
		cast chunk_eval clip clip_by_norm concat conditional_block conv2d conv2d_transpose conv3d conv3d_transpose conv_shift cos_sim crf_decoding crop
		cross_entropy decayed_adagrad dropout elementwise_add elementwise_div elementwise_mul elementwise_sub equal exp expand feed fetch fill fill_constant
		fill_constant_batch_size_like fill_zeros_like ftrl gather gaussian_random gru gru_unit hinge_loss huber_loss increment l1_norm less_than
		linear_chain_crf load lod_array_length lod_rank_table lod_reset lod_tensor_to_array log log_loss logical_and logical_not logical_or logical_xor
		lookup_table lrn lstm lstm_unit margin_rank_loss matmul max_pool2d_with_index max_pool3d_with_index max_sequence_len maxout mean
		merge_lod_tensor minus modified_huber_loss momentum mul multiplex nce pad pool2d pool3d positive_negative_pair pow precision_recall prelu
		proximal_adagrad proximal_gd rank_loss read_from_array reciprocal recurrent reduce_max reduce_mean reduce_min reduce_sum relu relu6 reshape
		rmsprop rnn_memory_helper roi_pool row_conv save scale scatter sequence_concat sequence_conv sequence_expand sequence_pool sequence_slice
		sequence_softmax sgd shrink_rnn_memory sigmoid sigmoid_cross_entropy_with_logits sign smooth_l1_loss soft_relu softmax
		softmax_with_cross_entropy softplus softshrink softsign split split_lod_tensor spp sqrt square squared_l2_distance squared_l2_norm stanh sum
		tanh tanh_shrink thresholded_relu top_k transpose uniform_random unpool while write_to_array abs brelu ceil elu floor hard_shrink
		hard_sigmoid leaky_relu logsigmoid round swish less_equal greater_than greater_equal not_equal is_empty`},
	{"0.12-0.15", `arg_max arg_min argsort assign_value average_accumulates bilinear_interp bipartite_match box_coder cos create_batch_reader
		create_double_buffer_reader create_multi_pass_reader create_py_reader create_recordio_file_reader create_shuffle_reader ctc_align cumsum
		density_prior_box depthwise_conv2d depthwise_conv2d_transpose detection_map edit_distance elementwise_max elementwise_min elementwise_pow
		extract_rows fetch_barrier gaussian_random_batch_size_like hierarchical_sigmoid im2sequence iou_similarity label_smooth layer_norm
		listen_and_serv load_combine lookup_sparse_table lstmp mean_iou merge_ids mine_hard_examples multiclass_nms norm one_hot pad2d
		pad_constant_like polygon_box_transform prefetch print prior_box random_crop read recv reduce_prod reorder_lod_tensor_by_rank reshape2
		reverse rpn_target_assign sampling_id save_combine selu send send_barrier sequence_erase sequence_expand_as sequence_mask sequence_pad
		sequence_reshape shape sin slice split_byref split_ids split_selected_rows squeeze stack target_assign transpose2
		truncated_gaussian_random uniform_random_batch_size_like unsqueeze unstack warpctc anchor_generator generate_proposals
		generate_proposal_labels generate_mask_labels flatten`},
	{"1.0-1.8", `acos amp_check_finite_and_scale assert equal_all add_position_encoding addmm affine_channel affine_grid allclose asin atan attention_lstm batch_fc bce_loss bicubic_interp bmm bpr_loss
		box_clip box_decoder_and_assign center_loss cholesky clip_by_norm coalesce_tensor collect_fpn_proposals conv2d_fusion cosh crop_tensor cross
		cross_entropy2 cudnn_lstm cvm data_norm deformable_conv deformable_conv_v1 deformable_psroi_pooling dequantize dgc dgc_clip_by_norm
		dgc_momentum diag diag_embed diag_v2 dist distribute_fpn_proposals dot dpsgd elementwise_floordiv elementwise_mod erf expand_as expand_as_v2
		expand_v2 eye fake_channel_wise_dequantize_max_abs fake_channel_wise_quantize_abs_max fake_dequantize_max_abs fake_quantize_abs_max
		fake_quantize_dequantize_moving_average_abs_max fake_quantize_moving_average_abs_max fake_quantize_range_abs_max fc fill_any_like
		fill_zeros_like2 filter_by_instag flatten2 flatten_contiguous_range flip fsp fused_elemwise_activation fused_embedding_seq_pool
		gather_nd gather_tree gelu get_tensor_from_selected_rows grid_sampler group_norm hard_swish hash histogram index_sample index_select
		instance_norm inverse isfinite kldiv_loss kron lamb lars_momentum linear_interp linspace locality_aware_nms log1p log_softmax logsumexp
		lookup_table_v2 masked_select match_matrix_tensor matrix_nms merge_selected_rows meshgrid mish moving_average_abs_max_scale multiclass_nms2
		nearest_interp nll_loss one_hot_v2 p_norm partial_concat partial_sum pixel_shuffle prroi_pool psroi_pool pull_box_sparse py_func
		quantize randint randperm range rank_attention reduce_all reduce_any requantize retinanet_detection_output retinanet_target_assign rnn roi_align
		roi_perspective_transform roll rsqrt run_program sample_logits scatter_nd_add sequence_enumerate sequence_reverse sequence_scatter
		sequence_topk_avg_pooling sequence_unpad shard_index shuffle_batch shuffle_channel sigmoid_focal_loss similarity_focus sinh size
		space_to_depth spectral_norm sqrt squeeze2 strided_slice sync_batch_norm tan tdm_child tdm_sampler teacher_student_sigmoid_loss
		temporal_shift top_k_v2 trace tree_conv tril_triu trilinear_interp unbind unfold unique unique_with_counts unsqueeze2 var_conv_2d where
		where_index yolo_box yolov3_loss argsort isinf isnan isfinite_v2 isinf_v2 isnan_v2 silu frobenius_norm
		seed select_input select_output tensor_array_to_tensor merge_lod_tensor_infer fake_quantize_dequantize_abs_max dequantize_abs_max dequantize_log`},
	{"2.x", `rrelu unpool3d fill_diagonal_tensor logspace cummax cummin renorm nms solve lstsq lu lu_unpack qr svd matrix_rank slogdeterminant triangular_solve cholesky_solve index_put i0e i1 i1e graph_send_recv graph_send_ue_recv graph_send_uv nanmedian exponential gaussian_random_inplace poisson dirichlet segment_pool elementwise_heaviside fold index_add logcumsumexp pixel_unshuffle repeat_interleave acosh asinh atanh einsum isclose adamw check_finite_and_unscale update_loss_scaling bicubic_interp_v2 bilinear_interp_v2 bincount broadcast_tensors clip_by_norm conj cumprod determinant digamma eigh
		elementwise_fmax elementwise_fmin expm1 fill_diagonal fused_attention fused_feedforward hard_swish i0 label_smooth lerp lgamma linear_interp_v2
		log10 log2 logit matmul_v2 matrix_power merged_adam merged_momentum mode multiclass_nms3 multinomial mv nearest_interp_v2 pad3d
		put_along_axis sparse_momentum take_along_axis tile trilinear_interp_v2 trunc unique_consecutive viterbi_decode bitwise_and bitwise_not
		bitwise_or bitwise_xor celu atan2 kthvalue tril_indices set_value searchsorted share_data share_buffer softmax_mask_fuse
		generate_proposals_v2 distributed_lookup_table lookup_table_dequantize uniform_random_inplace empty erfinv frame overlap_add
		flash_attn bernoulli
		quantize_linear dequantize_linear fake_channel_wise_quantize_dequantize_abs_max fill_any gumbel_softmax merged_adamw diagonal triu_indices`},
}

// Introduced returns the releases of Fluid in which an op first occurs, such as "0.12-0.15", and "" for an op that only EDL has. The gradient of an op
// is as old as the op.
func Introduced(opType string) string {
	opType = strings.TrimSuffix(opType, "_grad")
	for _, release := range introduced {
		for name := range strings.FieldsSeq(release.ops) {
			if name == opType {
				return release.releases
			}
		}
	}
	return ""
}
