package program

import (
	"slices"

	"github.com/edl-go/edl/tensor"
)

// typeAttrs are attributes that name element types.
var typeAttrs = []string{"dtype", "in_dtype", "out_dtype"}

// WrapOp is the op that gives an int32 the value that it would have as an integer of fewer bits.
const WrapOp = "wrap_integers"

// widen gives variables of types of which kernels know nothing a type that holds all their values, and with them the attributes that name types. Integers still wrap around
// as those of their type do. It leaves alone masks of
// dropout: nothing but its gradient reads them, and the declaration of a temporary variable is a hint.
// It is not for programs of roles: there 16 bits are what travels, and what a user's program had of them is wide already.
func widen(p *Program) {
	masks := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if op.Type == "dropout" {
				masks[op.Out("Mask")] = true
			}
		}
	}
	for _, b := range p.Blocks {
		wrap(b, masks)
		for _, op := range b.Ops {
			for _, attr := range typeAttrs {
				if from, ok := dtypeOf(op, attr); ok && tensor.Wider(from) != from {
					op.SetAttr(attr, int32(tensor.Wider(from)))
				}
			}
		}
	}
	for _, b := range p.Blocks {
		for _, v := range b.Vars() {
			if slices.Contains([]VarKind{LoDTensor, SelectedRows, LoDTensorArray}, v.Kind) && !masks[v.Name] {
				v.DType = tensor.Wider(v.DType)
			}
		}
	}
}

// dtypeOf returns the element type that an attribute names.
func dtypeOf(op *Op, attr string) (tensor.DType, bool) {
	n, ok := op.Int(attr)
	d := tensor.DType(n)
	return d, ok && int64(d) == n
}

// inRange are ops whose results lie in the type of their inputs: they move, choose or compare elements, or read them.
var inRange = []string{"feed", "fetch", "read", "load", "load_combine", WrapOp, "assign", "share_data", "print", "concat", "stack", "unstack", "unbind", "split", "slice", "strided_slice", "set_value",
	"crop", "crop_tensor", "reshape", "reshape2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2", "flatten", "flatten2", "flatten_contiguous_range", "transpose", "transpose2", "expand",
	"expand_v2", "expand_as", "expand_as_v2", "tile", "repeat_interleave", "flip", "reverse", "roll", "gather", "gather_nd", "index_select", "index_sample", "take_along_axis", "masked_select", "where",
	"top_k", "top_k_v2", "argsort", "elementwise_max", "elementwise_min", "reduce_max", "reduce_min", "bitwise_and", "bitwise_or", "bitwise_xor", "lookup_table", "lookup_table_v2",
	"fill_zeros_like", "fill_zeros_like2", "lod_reset", "sequence_expand", "sequence_slice", "sequence_concat", "sequence_reshape", "sequence_mask", "one_hot", "one_hot_v2",
	"read_from_array", "array_to_lod_tensor", "shrink_rnn_memory", "reorder_lod_tensor_by_rank", "split_lod_tensor", "merge_lod_tensor", "select_input", "select_output", "random_crop"}

// wrap appends to each op that computes integers of 8 or 16 bits the ops that let them wrap around.
func wrap(b *Block, masks map[string]bool) {
	for i := 0; i < len(b.Ops); i++ {
		op := b.Ops[i]
		if slices.Contains(inRange, op.Type) || len(op.SubBlocks()) > 0 {
			continue
		}
		for _, name := range op.OutputNames() {
			v, ok := b.Find(name)
			if !ok || v.Kind != LoDTensor || masks[name] {
				continue
			}
			narrow := v.DType
			if named, ok := dtypeOf(op, "out_dtype"); ok && op.Type == "cast" {
				narrow = named
			}
			bits, unsigned := 8, narrow == tensor.UInt8
			switch {
			case tensor.Wider(narrow) != tensor.Int32 || narrow == tensor.Int32 || holds(narrow, op):
				continue
			case narrow == tensor.Int16:
				bits = 16
			}
			wrapped := &Op{Type: WrapOp, Inputs: map[string][]string{"X": {name}}, Outputs: map[string][]string{"Out": {name}},
				Attrs: map[string]Attr{"bits": int32(bits), "unsigned": unsigned}}
			if _, ok := op.Attrs[AttrRole]; ok {
				wrapped.SetRole(op.Role())
			}
			if stack, ok := op.Attrs[AttrCallstack]; ok {
				wrapped.SetAttr(AttrCallstack, stack)
			}
			i++
			b.Ops = slices.Insert(b.Ops, i, wrapped)
		}
	}
}

// holds reports whether what op writes is known to lie in a narrow type: a constant, or a cast of truth values or of the type itself.
func holds(narrow tensor.DType, op *Op) bool {
	switch op.Type {
	case "cast":
		from, ok := dtypeOf(op, "in_dtype")
		return ok && (from == narrow || from == tensor.Bool)
	case "fill_constant", "fill_constant_batch_size_like":
		low, high := -128.0, 127.0
		switch narrow {
		case tensor.UInt8:
			low, high = 0, 255
		case tensor.Int16:
			low, high = -1<<15, 1<<15-1
		}
		value, ok := op.Float("value")
		text, _ := op.Str("str_value")
		return ok && text == "" && len(op.Inputs["ValueTensor"]) == 0 && value >= low && value <= high
	}
	return false
}

// roleOps are ops that only programs of trainers and pservers have.
var roleOps = []string{"send", "recv", "listen_and_serv", "compress", "decompress"}

// ofRole reports whether a program, or the startup program that belongs to it, is that of a role of a job.
func ofRole(p *Program) bool {
	for _, b := range p.Blocks {
		if slices.ContainsFunc(b.Ops, func(op *Op) bool { return slices.Contains(roleOps, op.Type) }) {
			return true
		}
	}
	return p.Startup != nil && ofRole(p.Startup)
}
