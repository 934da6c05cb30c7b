package transpiler

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/random"
	"github.com/edl-go/edl/program"
)

// buildPServerStartups writes the program that initializes each server. The values are those of the user's startup program, bit for bit. In Fluid
// they depend on the slicing, because it draws each slice by itself.
//
// The user's ops compute a variable that is not sliced. A copy of an op computes a slice of a constant or of a random variable: random ops draw by
// index of element. Any other slice is taken from the whole variable.
func buildPServerStartups(s *state) error {
	initializers := soleInitializers(s.source.Startup)
	for server, p := range s.result.PServers {
		w := &initWriter{state: s, serverVars: s.serverVars.on(server), initializers: initializers}
		if err := w.write(); err != nil {
			return err
		}
		p.Startup = w.program
	}
	return nil
}

// An initWriter writes the startup program of one server.
type initWriter struct {
	*state
	serverVars   []serverVar
	initializers map[string]*program.Op
	program      *program.Program
	copies       []*program.Op // compute a slice directly
	cut          []serverVar   // slices that need the whole
}

// soleInitializers returns ops of a startup program by variable: ops without inputs that are the only writers of the variable.
func soleInitializers(startup *program.Program) map[string]*program.Op {
	sole := map[string]*program.Op{}
	if startup == nil {
		return sole
	}
	b := startup.Global()
	for name, use := range b.Uses() {
		if len(use.Writers) != 1 {
			continue
		}
		op := b.Ops[use.Writers[0]]
		if reads, writes := b.Touches(op); len(reads) == 0 && len(writes) == 1 {
			sole[name] = op
		}
	}
	return sole
}

func (w *initWriter) write() error {
	if w.source.Startup == nil {
		w.program = program.NewStartup()
		return nil
	}
	own, whole := map[string]bool{}, []string{}
	for _, h := range w.serverVars {
		if _, ok := w.source.Startup.Global().Var(h.variable); !ok {
			continue // nothing initializes it, so its value comes from a file
		}
		if h.at.Name == h.variable {
			own[h.variable] = true
			whole = append(whole, h.variable)
			continue
		}
		op, err := w.sliceInitializer(h)
		switch {
		case err != nil:
			return err
		case op != nil:
			w.copies = append(w.copies, op)
		default:
			w.cut = append(w.cut, h)
			whole = append(whole, h.variable)
		}
	}
	var err error
	if w.program, err = startupOf(w.state, whole); err != nil {
		return err
	}
	b := w.program.Global()
	for _, v := range b.Vars() {
		v.Persistable = own[v.Name]
	}
	for _, h := range w.serverVars {
		b.EnsureVar(h.at)
	}
	b.Ops = append(b.Ops, w.copies...)
	for _, h := range w.cut {
		if err := w.cutOut(b, h); err != nil {
			return err
		}
	}
	return nil
}

// sliceInitializer returns a copy of the op that initializes a variable, changed so that it initializes the slice. It returns nil if the slice must
// be taken from the whole.
func (w *initWriter) sliceInitializer(h serverVar) (*program.Op, error) {
	writer := w.initializers[h.variable]
	if writer == nil {
		return nil, nil
	}
	if def, ok := ops.Lookup(writer.Type); ok && def.Class == ops.Random {
		return random.Slice(writer, h.at.Name, h.first, h.first+rowsOf(h.at.Dims))
	}
	if writer.Type != "fill_constant" {
		return nil, nil
	}
	op := writer.Clone()
	op.RenameOutput(h.variable, h.at.Name)
	op.SetAttr("shape", append([]int64(nil), h.at.Dims...))
	return op, nil
}

// cutOut appends ops that take a slice from a variable that was computed as a whole.
func (w *initWriter) cutOut(b *program.Block, h serverVar) error {
	if !h.cut {
		b.Append(newOp("assign", program.RoleDist, "", slots{"X": {h.variable}}, slots{"Out": {h.at.Name}}))
		return nil
	}
	if err := checkSections(h.variable, h.total); err != nil {
		return err
	}
	end := h.first + rowsOf(h.at.Dims)
	var names []string
	var rows []int64
	add := func(name string, n int64) {
		if n == 0 {
			return
		}
		v := w.variable(h.variable).Copy(name)
		v.Dims[0], v.Persistable, v.IsParameter = n, false, false
		b.EnsureVar(v)
		names, rows = append(names, name), append(rows, n)
	}
	add(w.names.free(h.at.Name+".before"), h.first)
	add(h.at.Name, end-h.first)
	add(w.names.free(h.at.Name+".after"), h.total-end)
	b.Append(cutOp(h.variable, names, rows))
	return nil
}
