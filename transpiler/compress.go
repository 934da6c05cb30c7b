package transpiler

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// chooseForms declares what travels in place of float32 gradients and parameters, if the job compresses them. Slices of another type, and forward
// state, travel as they are. So do gradients that topk sends whole. Sparse gradients travel by rows in any job (rows.go).
func chooseForms(s *state) error {
	s.sent, s.served, s.residuals = map[string]program.Var{}, map[string]program.Var{}, map[string]program.Var{}
	s.changed = map[string]program.Var{}
	gradients, err := compress.ParseGradients(s.cfg.CompressGradients)
	if err != nil {
		return err
	}
	parameters, err := compress.ParseParameters(s.cfg.CompressParameters)
	if err != nil {
		return err
	}
	for _, u := range s.shards {
		if gradients.Selects() {
			declareEntries(s, u, gradients)
		} else {
			declareForms(s, s.sent, u, u.group.contributions, gradients)
		}
		// In async mode, only contributions make an optimize block run, which compresses parameters.
		if s.cfg.Mode == Sync || len(u.group.contributions) > 0 {
			declareForms(s, s.served, u, u.group.params, parameters)
		}
	}
	compressed := len(s.sent)+len(s.served) > 0
	for _, u := range s.shards {
		if err := declareRows(s, u); err != nil {
			return err
		}
	}
	if len(s.shards) == 0 || gradients == compress.None && parameters == compress.None || compressed {
		return nil
	}
	first := s.shards[0].group.ops[0]
	if gradients.Selects() && parameters == compress.None {
		return fault.E(fault.Unsupported, fault.On(first.op), fault.Got("the compression "+gradients.String()+" of a program without large gradients"),
			fault.Want("a float32 gradient of a parameter with at least LEAST elements"),
			fault.Hint("say a smaller LEAST, such as topk:0.01:1024, or leave out --compress-gradients"))
	}
	return fault.E(fault.Unsupported, fault.On(first.op), fault.Got("compression of a program without float32 gradients and parameters"),
		fault.Want("float32"), fault.Hint("leave out --compress-gradients and --compress-parameters"))
}

// declareForms declares the form of float32 variables of a shard, by their names at the server.
func declareForms(s *state, forms map[string]program.Var, u *shard, names []string, f compress.Form) {
	if f == compress.None {
		return
	}
	for _, name := range names {
		v := s.at(u, name)
		if v.DType != tensor.Float32 || v.Kind != program.LoDTensor {
			continue
		}
		form := v.Copy(s.names.free(v.Name + "." + f.Name()))
		form.DType, form.Persistable, form.IsParameter = f.DType(), false, false
		forms[v.Name] = form
	}
}

// declareEntries declares the entries of a shard's gradients that topk does not send whole, by the names of the gradients at the server, and their
// residuals on the trainer. It takes the gradients of parameters only: their dims are known.
func declareEntries(s *state, u *shard, f compress.Form) {
	for _, param := range u.group.params {
		gradient := u.group.gradientOf(param)
		whole := s.variable(gradient)
		if gradient == "" || whole.DType != tensor.Float32 || whole.Kind != program.LoDTensor || len(whole.Dims) == 0 || slices.Contains(whole.Dims, program.Unknown) ||
			f.Of(ops.Product(whole.Dims)) == compress.None {
			continue
		}
		v := s.at(u, gradient)
		form := v.Copy(s.names.free(v.Name + "." + f.Name()))
		form.DType, form.Dims, form.Persistable, form.IsParameter = f.DType(), []int64{2, f.Entries(ops.Product(v.Dims))}, false, false
		s.sent[v.Name] = form
		if _, ok := s.residuals[gradient]; !ok {
			residual := whole.Copy(s.names.free(gradient + ".residual"))
			residual.Persistable, residual.IsParameter, residual.StopGradient = true, false, true
			s.residuals[gradient] = residual
		}
	}
}

// servedParts returns the parts of a variable as trainers receive them: their compressed forms, if servers have these.
func servedParts(s *state, parts []serverVar) []serverVar {
	parts = slices.Clone(parts)
	for i := range parts {
		if form, ok := s.served[parts[i].at.Name]; ok {
			parts[i].at = form
		}
	}
	return parts
}

// compressOp rounds a variable to the type of forms, each of which has some rows of it.
func compressOp(line, from string, forms ...program.Var) *program.Op {
	op := newOp("compress", program.RoleDist, line, slots{"X": {from}}, slots{"Out": nil})
	var sections []int32
	for _, f := range forms {
		op.Outputs["Out"] = append(op.Outputs["Out"], f.Name)
		sections = append(sections, int32(rowsOf(f.Dims)))
	}
	op.SetAttr("dtype", int32(forms[0].DType))
	if len(forms) > 1 {
		op.SetAttr("sections", sections)
	}
	return op
}

// topKOp moves entries of a gradient and of its residual to forms. Each form has entries of so many rows.
func topKOp(line, from, residual string, rows []int64, forms []program.Var) *program.Op {
	op := newOp("compress_topk", program.RoleDist, line, slots{"X": {from}, "Residual": {residual}}, slots{"Out": nil, "ResidualOut": {residual}})
	sections, entries := make([]int32, len(forms)), make([]int32, len(forms))
	for i, f := range forms {
		op.Outputs["Out"] = append(op.Outputs["Out"], f.Name)
		sections[i], entries[i] = int32(rows[i]), int32(f.Dims[1])
	}
	op.SetAttr("sections", sections)
	op.SetAttr("entries", entries)
	return op
}

// zeroOp sets a variable to 0.
func zeroOp(v program.Var) *program.Op {
	op := newOp("fill_constant", program.RoleForward, "", nil, slots{"Out": {v.Name}})
	op.SetAttr("shape", slices.Clone(v.Dims))
	op.SetAttr("dtype", int32(v.DType))
	op.SetAttr("value", float32(0))
	return op
}

// decompressOp joins runs of rows and converts them to float32.
func decompressOp(line string, from []string, into string) *program.Op {
	return newOp("decompress", program.RoleDist, line, slots{"X": from}, slots{"Out": {into}})
}
