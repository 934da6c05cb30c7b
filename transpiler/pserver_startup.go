package transpiler

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/random"
	"github.com/edl-go/edl/program"
)

// buildPServerStartups writes the program that gives each server its initial values, which are those of the user's startup
// program bit for bit. Fluid draws each slice by itself instead, so its values depend on the slicing.
//
// A variable that is held whole is computed by the user's ops. A slice of a constant or of a random variable is computed
// by a copy of its op: random ops draw by index of element. Any other slice is cut out of the whole.
func buildPServerStartups(s *state) error {
	initializers := soleInitializers(s.source.Startup)
	for server, p := range s.result.PServers {
		w := &initWriter{state: s, held: s.held.on(server), initializers: initializers}
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
	held         []heldVar
	initializers map[string]*program.Op
	program      *program.Program
	copies       []*program.Op // compute a slice directly
	cut          []heldVar     // slices that need the whole
}

// soleInitializers returns, by variable, the ops of a startup program that read nothing and are the only ones to write one
// variable.
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
	for _, h := range w.held {
		if _, ok := w.source.Startup.Global().Var(h.variable); !ok {
			continue // nothing initializes it: its value comes from a file
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
	if w.program, err = w.startupOf(whole); err != nil {
		return err
	}
	b := w.program.Global()
	for _, v := range b.Vars() {
		v.Persistable = own[v.Name]
	}
	for _, h := range w.held {
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

// sliceInitializer returns a copy of the op that initializes a variable which yields the slice, nil when the slice must be cut out of the
// whole.
func (w *initWriter) sliceInitializer(h heldVar) (*program.Op, error) {
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

// cutOut appends the ops that take a slice out of a variable which has been computed whole.
func (w *initWriter) cutOut(b *program.Block, h heldVar) error {
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
