package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// TreeConv convolves trees. nodes is [batch, nodes, features], and edges, int32 [batch, edges, 2], has pairs of a node and its child, counted from 1, up to a pair with
// a 0. The window of a node has what lies less than depth levels below it. The result is [batch, nodes, size, filters]. Parameters: w_0 [features, 3, size, filters] and
// b_0 [filters].
//
// Options: Act, Param (default Xavier), Bias (default 0), NoBias, Name. Ops: tree_conv, elementwise_add, activation.
func TreeConv(nodes, edges Variable, size, filters int64, depth int, opts ...Option) Variable {
	l := start("tree_conv", opts, []string{"Act", "Param", "Bias", "NoBias"}, nodes, edges)
	if !l.failed && (size < 1 || filters < 1 || nodes.rank() != 3) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(nodes.Name()), fault.Gotf("%d filters of size %d on %v", filters, size, nodes), fault.Want("at least 1 each, on rows of features")))
	}
	if l.failed {
		return l.fail()
	}
	w := l.parameter("w", l.param, nodes.DType(), []int64{nodes.v.Dims[2], 3, size, filters}, Xavier())
	out := l.op("tree_conv", In{"NodesVector": {nodes}, "EdgeSet": {edges}, "Filter": {w}}, Attrs{"max_depth": depth}, "Out")
	return l.result(l.activate(l.addBias(out, 3)))
}

// BatchFC multiplies the rows of each slot with a matrix of the slot. x is [slots, rows, columns], the result is [slots, rows, size]. Parameters: w_0 [slots, columns, size]
// and b_0 [slots, size].
//
// Options: Act, Param (default Xavier), Bias (default 0), Name. Ops: batch_fc, activation.
func BatchFC(x Variable, size int64, opts ...Option) Variable {
	l := start("batch_fc", opts, []string{"Act", "Param", "Bias"}, x)
	if !l.failed && (size < 1 || x.rank() != 3) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("size %d on %v", size, x), fault.Want("at least 1, on rows of slots")))
	}
	if l.failed {
		return l.fail()
	}
	w := l.parameter("w", l.param, x.DType(), []int64{x.v.Dims[0], x.v.Dims[2], size}, Xavier())
	bias := l.parameter("b", l.bias, x.DType(), []int64{x.v.Dims[0], size}, Constant(0))
	return l.result(l.activate(l.op("batch_fc", In{"Input": {x}, "W": {w}, "Bias": {bias}}, nil, "Out")))
}

// RankAttention lets each row of x, [batch, columns], see rows that are shown beside it: offsets, int32 [batch, 2*ranks+1], has its rank from 1 on, 0 for none, and of each neighbour the
// rank and the row. Each pair of ranks has a matrix, and the result, [batch, size], is the sum over neighbours of their row times it. No gradient flows to x. Parameter:
// w_0 [ranks*ranks*columns, size].
//
// Options: Param (default Xavier), Name. Op: rank_attention.
func RankAttention(x, offsets Variable, ranks, size int64, opts ...Option) Variable {
	l := start("rank_attention", opts, []string{"Param"}, x, offsets)
	if !l.failed && (ranks < 1 || ranks > 1<<10 || size < 1 || x.rank() != 2) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("%d ranks and size %d on %v", ranks, size, x), fault.Want("1 to 1024 ranks, and at least 1 column of result, on rows")))
	}
	if l.failed {
		return l.fail()
	}
	w := l.parameter("w", l.param, x.DType(), []int64{ranks * ranks * x.v.Dims[1], size}, Xavier())
	return l.result(l.op("rank_attention", In{"X": {x}, "RankOffset": {offsets}, "RankParam": {w}}, Attrs{"MaxRank": ranks}, "Out"))
}

// TDMChild finds the children of nodes of the tree of a tree-based deep model: tree, int32 or int64 [nodes, 3+children], has of each node its item, 0 for none, its layer, its
// parent and its children. The results have the dims of nodes and one of children: their numbers, 0 where there is none, and 1 for those that are leaves. They are int32, or as DType says
// int64.
//
// Options: DType, Name (of child). Op: tdm_child.
func TDMChild(nodes, tree Variable, children int64, opts ...Option) (child, leaf Variable) {
	l := start("tdm_child", opts, []string{"DType"}, nodes, tree)
	out := l.multi("tdm_child", In{"X": {nodes}, "TreeInfo": {tree}}, Attrs{"child_nums": children, "dtype": integerType(l.dtype)}, "Child", "LeafMask")
	return l.result(out[0]), out[1]
}

// TDMSampler draws for each item of items, [batch, 1], and each layer of a tree others nodes that are not on the way to it. travel, [items, layers], has the nodes on the
// way, 0 for none, layer, [nodes, 1], all nodes layer by layer, and offsets says where each layer begins in it, and where the last ends. In each layer the first sample is the node on the way, with label
// 1. mask is 0 for samples that stand for none. The results, [batch, samples of all layers], are int32, or as DType says int64.
//
// Options: DType, Name (of samples). Op: tdm_sampler.
func TDMSampler(items, travel, layer Variable, others, offsets []int, opts ...Option) (samples, labels, mask Variable) {
	l := start("tdm_sampler", opts, []string{"DType"}, items, travel, layer)
	attrs := Attrs{"neg_samples_num_list": others, "layer_offset_lod": offsets, "dtype": integerType(l.dtype)}
	if !l.failed {
		attrs["seed"] = l.model.SeedOf("tdm_sampler", l.prefix)
	}
	out := l.multi("tdm_sampler", In{"X": {items}, "Travel": {travel}, "Layer": {layer}}, attrs, "Out", "Labels", "Mask")
	return l.result(out[0]), out[1], out[2]
}

// integerType is the number of int64 if an option asks for it, else of int32.
func integerType(asked tensor.DType) int {
	if asked == tensor.Int64 {
		return int(tensor.Int64)
	}
	return int(tensor.Int32)
}
