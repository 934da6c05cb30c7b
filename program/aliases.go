package program

import "strings"

// aliases are ops that Paddle writes under another name where the way differs in which it runs them: for inference, or in the backward pass.
var aliases = map[string]string{
	"c_identity":              "assign", // what one process of a layer over several has of its input
	"conditional_block_infer": "conditional_block",
	"channel_shuffle":         "shuffle_channel",
	"channel_shuffle_grad":    "shuffle_channel_grad",
	"eigvalsh":                "eigh", // which writes the eigenvectors, too
	"eigvalsh_grad":           "eigh_grad",
	"fetch_v2":                "fetch",
	"gammaln":                 "lgamma",
	"gammaln_grad":            "lgamma_grad",
	"grad_add":                "elementwise_add",
	"reduce_amax":             "reduce_max", // the gradients differ where elements are equal
	"reduce_amin":             "reduce_min",
	"memcpy":                  "assign", // between the memories of devices
	"memcpy_d2h":              "assign",
	"memcpy_h2d":              "assign",
}

// renameAliases gives each of them the name of the op that it is.
func renameAliases(p *Program) {
	for _, b := range p.Blocks {
		renameKinds(b)
		for _, op := range b.Ops {
			if name, ok := aliases[op.Type]; ok {
				if groups, has := op.Attrs["groups"]; has && strings.HasPrefix(op.Type, "channel_shuffle") {
					op.Attrs["group"] = groups
					delete(op.Attrs, "groups")
				}
				op.Type = name
				for _, attr := range []string{"dst_place_type", "deepcopy", "use_calc_stream", "use_model_parallel", "ring_id", "is_test"} {
					delete(op.Attrs, attr)
				}
			}
			if strings.TrimSuffix(op.Type, "_grad") == "lgamma" {
				renameSlots(op.Inputs)
				renameSlots(op.Outputs)
			}
			if op.Type == "einsum" || op.Type == "einsum_grad" { // what the forward op has computed on the way for its gradient, which computes it again here
				for _, slot := range []string{"InnerCache", "XShape"} {
					delete(op.Inputs, slot)
					delete(op.Outputs, slot)
				}
			}
			if op.Type == "cudnn_lstm" || op.Type == "cudnn_lstm_grad" {
				renameSlots(op.Inputs)
				renameSlots(op.Outputs)
				delete(op.Inputs, "Cache") // memory of a GPU, of no type that kernels know
			}
		}
	}
}

// renameKinds gives graph_send_recv the attribute names of Paddle 2.4.
func renameKinds(b *Block) {
	for _, op := range b.Ops {
		if strings.TrimSuffix(op.Type, "_grad") != "graph_send_recv" {
			continue
		}
		if kind, old := op.Attrs["pool_type"]; old {
			op.Attrs["reduce_op"] = kind
			delete(op.Attrs, "pool_type")
		}
	}
}

// renameSlots gives slots that another release, or another name of the op, has under another name the name that the op has here.
func renameSlots(slots map[string][]string) {
	for _, pair := range [...][2]string{{"last_h", "LastH"}, {"last_c", "LastC"}, {"x", "X"}, {"out", "Out"}} {
		for _, suffix := range []string{"", GradSuffix} {
			old, name := pair[0]+suffix, pair[1]+suffix
			if list, ok := slots[old]; ok && slots[name] == nil {
				slots[name] = list
				delete(slots, old)
			}
		}
	}
}
