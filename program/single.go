package program

import "slices"

// withSingleNumbers is the first version of Paddle, 2.5, in which one number may be a tensor of dims [] where earlier versions gave it the dims [1].
const withSingleNumbers = 2005000

// singleNumbers says of ops whose result has the dims [1] here, as in Fluid, where it is one number, whether that is so. rank is that of the first input as it is declared.
var singleNumbers = map[string]func(op *Op, rank int) bool{
	"accuracy": always, "allclose": always, "determinant": ofRank(2), "dist": always, "equal_all": always, "is_empty": always, "lod_array_length": always, "matrix_rank": ofRank(2), "mean": always,
	"size": always, "squared_l2_norm": always, "trace": ofRank(2),
	"arg_max": reducesOne, "arg_min": reducesOne, "dot": ofRank(1), "gather_nd": ofRank(1), "kthvalue": reducesOne, "matmul": ofRank(1), "matmul_v2": ofRank(1), "mode": reducesOne,
	"unbind": ofRank(1), "unstack": ofRank(1),
	"frobenius_norm": reducesAll("dim"), "logsumexp": reducesAll("axis"), "nanmedian": reducesMedian, "p_norm": reducesAll("axis"), "reduce_all": reducesAll("dim"), "reduce_any": reducesAll("dim"),
	"reduce_max": reducesAll("dim"), "reduce_mean": reducesAll("dim"), "reduce_min": reducesAll("dim"), "reduce_prod": reducesAll("dim"), "reduce_sum": reducesAll("dim"),
	"slice": removesAll("decrease_axis"), "strided_slice": removesAll("decrease_axis"), "squeeze": removesAll("axes"), "squeeze2": removesAll("axes"),
	"kldiv_loss": reducesRows, "nll_loss": reducesRows,
}

func always(*Op, int) bool { return true }

func ofRank(n int) func(*Op, int) bool {
	return func(_ *Op, rank int) bool { return rank == n }
}

// reducesOne is for ops that reduce one axis, or all with flatten.
func reducesOne(op *Op, rank int) bool {
	flat, _ := op.Bool("flatten")
	return rank == 1 || flat
}

// reducesAll is for ops that reduce the axes that an attribute lists.
func reducesAll(axes string) func(*Op, int) bool {
	return func(op *Op, rank int) bool {
		for _, keep := range []string{"keep_dim", "keepdim"} {
			if kept, _ := op.Bool(keep); kept {
				return false
			}
		}
		for _, all := range []string{"reduce_all", "asvector"} {
			if whole, _ := op.Bool(all); whole {
				return true
			}
		}
		if _, one := op.Int(axes); one {
			return rank == 1
		}
		list, _ := op.Ints(axes)
		return len(list) == rank
	}
}

// reducesMedian is for an op that keeps axes unless an attribute says otherwise, and reduces all where it lists none.
func reducesMedian(op *Op, rank int) bool {
	if keep, given := op.Bool("keepdim"); keep || !given {
		return false
	}
	list, _ := op.Ints("axis")
	return len(list) == 0 || len(list) == rank
}

// removesAll is for ops that remove the axes that an attribute lists.
func removesAll(axes string) func(*Op, int) bool {
	return func(op *Op, rank int) bool {
		list, _ := op.Ints(axes)
		return len(list) == rank
	}
}

func reducesRows(op *Op, _ int) bool {
	reduction, _ := op.Str("reduction")
	return reduction != "none"
}

// giveSingleNumbers adds to a program of Paddle 2.5 or later the ops that give such a result the dims [] which that version has declared for it. Of later ops some, such
// as stack and unsqueeze2, compute other dims from [] than from [1].
func giveSingleNumbers(p *Program) {
	if p.Version < withSingleNumbers {
		return
	}
	for _, b := range p.Blocks {
		var made []*Op
		for i, op := range b.Ops {
			if made != nil {
				made = append(made, op)
			}
			single := singleNumbers[op.Type]
			if single == nil || !single(op, b.rankOf(op)) {
				continue
			}
			s := splitter{block: b, op: op}
			for _, slot := range sortedKeys(op.Outputs) {
				for at, name := range op.Outputs[slot] {
					if v, ok := b.Find(name); ok && slot != "XShape" && v.Kind == LoDTensor && len(v.Dims) == 0 {
						before := s.temporary(name)
						if made, own := b.Var(before); own {
							made.Dims = []int64{1} // so that the program is read again as it is
						}
						op.Outputs[slot][at] = before
						s.unary("reshape", before, name, map[string]Attr{"shape": []int32{}})
					}
				}
			}
			if len(s.made) == 0 {
				continue
			}
			if made == nil {
				made = slices.Clone(b.Ops[:i+1])
			}
			made = append(made, s.made...)
		}
		if made != nil {
			b.Ops = made
		}
	}
}

// rankOf returns the declared rank of the first input of an op, 0 if there is none. Of gather_nd it is that of Index.
func (b *Block) rankOf(op *Op) int {
	for _, slot := range []string{"Index", "X", "Input"} {
		if v, ok := b.Find(op.In(slot)); ok && op.In(slot) != "" {
			return len(v.Dims)
		}
	}
	return 0
}

// declareDeterminants gives the results of determinants the dims that they have. Paddle declares none for them, or those of the matrices, also where they are fetched, and its
// kernels find the dims. From 2.5 on, no dims of the determinant of one matrix may be meant (giveSingleNumbers).
func declareDeterminants(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if op.Type != "determinant" && op.Type != "slogdeterminant" {
				continue
			}
			x, found := b.Find(op.In("Input"))
			v, own := b.Var(op.Out("Out"))
			if !found || !own || v.Persistable || len(x.Dims) < 2 || len(v.Dims) > 0 && !slices.Equal(v.Dims, x.Dims) {
				continue
			}
			dims := slices.Clone(x.Dims[:len(x.Dims)-2])
			single := len(dims) == 0
			if single {
				dims = []int64{1}
			}
			switch {
			case op.Type == "slogdeterminant":
				v.Dims = append([]int64{2}, dims...)
			case !single || len(v.Dims) > 0 || p.Version < withSingleNumbers:
				v.Dims = dims
			}
		}
	}
}
