package program

import "slices"

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
