package transpiler

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// chooseForms declares what travels in place of float32 gradients and parameters, if the job compresses them. Slices of another type, and forward
// state, travel as they are.
func chooseForms(s *state) error {
	s.sent, s.served = map[string]program.Var{}, map[string]program.Var{}
	gradients, err := compress.Parse(s.cfg.CompressGradients)
	if err != nil {
		return err
	}
	parameters, err := compress.Parse(s.cfg.CompressParameters)
	if err != nil {
		return err
	}
	for _, u := range s.shards {
		declareForms(s, s.sent, u, u.group.contributions, gradients)
		// In async mode, only contributions make an optimize block run, which compresses parameters.
		if s.cfg.Mode == Sync || len(u.group.contributions) > 0 {
			declareForms(s, s.served, u, u.group.params, parameters)
		}
	}
	if len(s.shards) == 0 || gradients == compress.None && parameters == compress.None || len(s.sent)+len(s.served) > 0 {
		return nil
	}
	first := s.shards[0].group.ops[0]
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
		if v.DType != tensor.Float32 {
			continue
		}
		form := v.Copy(s.names.free(v.Name + "." + string(f)))
		form.DType, form.Persistable, form.IsParameter = f.DType(), false, false
		forms[v.Name] = form
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

// decompressOp joins runs of rows and converts them to float32.
func decompressOp(line string, from []string, into string) *program.Op {
	return newOp("decompress", program.RoleDist, line, slots{"X": from}, slots{"Out": {into}})
}
