package plan

import (
	"errors"
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An inference is the first stage. It takes the request, and hands on the variables, the nodes and what must be finite.
type inference struct {
	*Request
	variables *variables
	nodes     []node
	checks    []*variable                 // what must be finite
	once      map[string]bool             // variables whose values are known where they are read (ops.WrittenOnce)
	late      map[*program.Op]bool        // ops that wait for dims (late.go)
	inner     map[int]map[string]ops.Meta // by block that an op runs: the types of variables that its ops write
	inputs    []*variable                 // of the scope, that the caller feeds through it (Request.Stay)
	walks     int                         // before this one: an inference for other dims walks again (again.go)
	before    []typed                     // what this walk has changed, if it is not the first
	inside    map[*program.Op]*ops.Shapes // of ops in blocks that ops run, if it is not the first
	grows     map[string]bool             // variables whose dims a block changes (grown)
}

// A node is an op of the block with concrete shapes.
type node struct {
	written *program.Op // as it stands in the program
	op      *program.Op // with the attributes that tensors give
	def     *ops.Def
	cost    ops.Cost
	reads   []string // that its blocks read outside of them
	writes  []string // that its blocks write outside of them

	results []result    // in the order of their slots
	touched []*variable // by it, as often as it names them; nil where its definition has a cost
	tensors *opTensors  // nil before it is bound
	bound   []*piece    // what the binder has made of it
	scratch []*variable // in the order in which Bind asked for it
	again   *again      // nil before the first inference for other dims
	dirtyIn int         // the last walk after which it must be bound again
	boundIn int         // the last walk after which it was
}

// infer walks the ops in order and gives every variable that they touch its concrete Meta and a place. It leaves out the ops at the border of the
// program (feed, fetch, readers): their outputs are fed.
func infer(request *Request) (*inference, error) {
	in, err := inferGrowing(request, nil, (*inference).all)
	if err == nil && len(in.late) > 0 {
		request.Block = withLateOps(request.Block, in.late)
		in, err = inferGrowing(request, in.grows, (*inference).all)
	}
	return in, err
}

func newInference(request *Request) *inference {
	return &inference{Request: request, variables: &variables{named: map[string]*variable{}}, once: ops.WrittenOnce(request.Block.Program()), late: map[*program.Op]bool{}}
}

// A grown is the error of an inference that has met a block which gives other dims to a temporary variable that had some before, as a loop does that adds a word to a
// sentence. Such a variable must be dynamic from its first value on.
type grown struct{ name string }

func (g *grown) Error() string { return g.name + " gets other dims" }

// inferGrowing infers, and begins again with each variable that a block makes grow. grows has those that are known, nil for none. It ends, because each time there is one more:
// a variable of grows is no temporary one.
func inferGrowing(request *Request, grows map[string]bool, run func(*inference) error) (*inference, error) {
	for {
		in := newInference(request)
		in.grows = grows
		err := run(in)
		var g *grown
		switch {
		case !errors.As(err, &g):
			return in, err
		case grows == nil:
			grows = map[string]bool{}
		}
		grows[g.name] = true
	}
}

// CheckShapes finds shapes that do not fit together, in a request without mistakes that CheckRequest finds. Persistable variables have the dims of their
// declarations. It walks the ops only if the feeds decide more dims than how many rows all of them have: when a program is built, its ops are compared for
// one number of rows.
func CheckShapes(block *program.Block, feeds map[string]ops.Meta) error {
	if !decideShapes(block, feeds) {
		return nil
	}
	_, err := inferGrowing(&Request{Block: block, Feeds: feeds, Scope: noValues{}}, nil, (*inference).walk)
	return err
}

// decideShapes reports whether feeds have different numbers of rows, or fill open dims other than the first. It is false if persistable variables have
// open dims: only their values tell.
func decideShapes(block *program.Block, feeds map[string]ops.Meta) bool {
	if slices.ContainsFunc(block.Vars(), func(v *program.Var) bool {
		return v.Persistable && slices.Contains(v.Dims, program.Unknown) && isTensor(v)
	}) {
		return false
	}
	rows := int64(program.Unknown)
	for name, meta := range feeds {
		v, ok := block.Find(name)
		if !ok || len(v.Dims) == 0 {
			continue
		}
		if slices.Contains(v.Dims[1:], program.Unknown) {
			return true
		}
		if v.Dims[0] != program.Unknown {
			continue
		}
		if rows != program.Unknown && rows != meta.Dims[0] {
			return true
		}
		rows = meta.Dims[0]
	}
	return false
}

// noValues is a Scope without variables, for an inference that nothing is bound to.
type noValues struct{ Scope }

func (noValues) Find(string) (*tensor.Tensor, bool) { return nil, false }

func (in *inference) all() error {
	known := func(name string) bool {
		_, ok := in.Scope.Find(name)
		return ok
	}
	read := slices.Concat(in.Fetch, in.Keep)
	if err := CheckRequest(in.Block, in.Feeds, read, known); err != nil {
		return err
	}
	if err := in.walk(); err != nil {
		return err
	}
	for _, name := range read {
		if v := in.variables.named[name]; v == nil || v.place == valueless {
			if err := in.fetchUntouched(name); err != nil {
				return err
			}
		} else if v.place == temporary {
			v.place = own
			if v.rows != nil {
				v.rows.place = own
			}
		}
	}
	if v := in.variables.named[in.Weight.Variable]; in.Weight.Value && v != nil && v.place == temporary {
		v.place = own // read when the run has come to its update
	}
	in.chooseChecks()
	return nil
}

// walk adds the feeds and the ops.
func (in *inference) walk() error {
	for _, name := range slices.Sorted(maps.Keys(in.Feeds)) {
		in.addFeed(name)
	}
	list := in.Ops
	if list == nil {
		list = in.Block.Ops
	}
	for _, op := range list {
		if err := in.addNode(op); err != nil {
			return err
		}
	}
	return nil
}

func (in *inference) addNode(op *program.Op) error {
	if border(op) {
		return nil
	}
	shapes, err := ops.Infer(op, in.inputMeta)
	if err != nil {
		return err
	}
	n := node{written: op}
	if err := in.types(&n, shapes); err != nil {
		return err
	}
	in.nodes = append(in.nodes, n)
	return nil
}

// types completes a node with what was inferred for its op, and records the types of what it writes.
func (in *inference) types(n *node, shapes *ops.Shapes) error {
	waits, err := waitsForValues(in, n.written, shapes)
	if err != nil {
		return err
	}
	op := shapes.Op()
	if n.def == nil {
		n.def, _ = ops.Lookup(op.Type)
	}
	def := n.def
	op = def.Changing(op)
	n.op, n.cost = op, ops.Cost{}
	open := def.Class == ops.Control
	if open {
		if err := in.enter(n, shapes); err != nil {
			return ops.At(op, err)
		}
	} else if waits {
		open, in.late[n.written] = true, true
	} else if late, err := in.isLate(op, def); err != nil {
		return err
	} else if late || makesGrowing(in, op, def) {
		open, in.late[n.written] = true, true
	}
	if n.results == nil {
		for _, slot := range slices.Sorted(maps.Keys(op.Outputs)) {
			for i, name := range op.Outputs[slot] {
				if name != program.Empty {
					n.results = append(n.results, result{name: name, slot: slot, at: i})
				}
			}
		}
	}
	for i := range n.results {
		r := &n.results[i]
		meta := shapes.Outs(r.slot)[r.at]
		if meta.Kind == 0 && slices.Contains(n.writes, r.name) {
			continue
		}
		if err := in.output(r, meta, open); err != nil {
			return ops.At(op, err)
		}
	}
	switch {
	case waits: // it gets no node of its own
	case def.Cost != nil:
		n.cost = def.Cost(shapes)
	default:
		if n.touched == nil {
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				n.touched = append(n.touched, in.variables.named[name])
			}
		}
		for _, v := range n.touched {
			n.cost.Bytes += v.bytes()
		}
	}
	return nil
}

// A result is a variable that the op of a node writes.
type result struct {
	name, slot string
	at         int          // in the slot
	declared   *program.Var // nil before the first inference
	variable   *variable    // nil before the first inference again
}

// inputMeta returns the Meta of an input, for ops.Infer. A variable that no op before has touched lives in the scope.
func (in *inference) inputMeta(name string) (ops.Meta, bool) {
	if v, ok := in.variables.named[name]; ok {
		return v.meta, true
	}
	declared, ok := in.Block.Find(name)
	if !ok {
		return ops.Meta{}, false
	}
	if !isTensor(declared) {
		meta := ops.MetaOf(declared).WithoutLoD()
		in.variables.add(name, meta, valueless)
		return meta, true
	}
	meta := in.metaInScope(name, declared)
	v := in.variables.add(name, meta, scoped)
	if in.Stay != nil {
		in.inputs = append(in.inputs, v)
	}
	return meta, true
}

// metaInScope returns the type of a variable of the scope, as it is now.
func (in *inference) metaInScope(name string, declared *program.Var) ops.Meta {
	meta := ops.MetaOf(declared).WithoutLoD() // sequences come with feeds only
	if t, ok := in.Scope.Find(name); ok {
		meta.DType, meta.Dims = t.DType(), slices.Clone(t.Dims())
		if i := slices.IndexFunc(in.Given, func(g ops.Missing) bool { return g.Variable == name }); i >= 0 && in.Given[i].Largest {
			most := ops.Largest(t)
			meta.Largest = &most
		} else if i >= 0 {
			meta.Value = copied(t)
		}
		if in.Stay != nil && len(t.LoD()) > 0 { // the caller feeds through the scope
			of := ops.MetaOfValue(t)
			meta.LoDLevel, meta.Sequences, meta.LoDOf = of.LoDLevel, of.Sequences, name
			if in.LoD {
				if err := tensor.CheckLoD(t); err == nil {
					meta.LoD = tensor.CloneLoD(t.LoD())
				}
			}
		}
	}
	return meta
}

// output records that an op writes a variable, and what was inferred for it. open says that the op may leave extents open until it runs.
func (in *inference) output(r *result, inferred ops.Meta, open bool) error {
	name := r.name
	if r.declared == nil {
		declared, ok := in.Block.Find(name)
		if !ok {
			return fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a name that no block declares"), fault.Want("a declared variable"))
		}
		r.declared = declared
	}
	if r.variable == nil {
		r.variable = in.variables.named[name]
	}
	declared, v, met := r.declared, r.variable, r.variable != nil
	if in.grows[name] && !open {
		return fault.E(fault.Unsupported, fault.Var(name), fault.Got("a variable to which a block gives other dims later"), fault.Want("a value from an op that computes it"),
			fault.Hint("assign it to another variable before"))
	}
	if !isTensor(declared) {
		if inferred.Kind == 0 {
			inferred = ops.MetaOf(declared)
		}
		switch {
		case !met:
			in.variables.add(name, inferred, valueless)
		case v.walk != in.walks:
			return in.change(v, inferred)
		case in.walks > 0:
			return in.change(v, joined(v.meta, inferred))
		default:
			v.meta = joined(v.meta, inferred)
		}
		return nil
	}
	if !in.once[name] {
		inferred.Value = nil
	}
	if met && len(in.Given) > 0 && v.walk == in.walks {
		v.meta.Value, v.meta.Largest = nil, nil
	}
	if open && inferred.LoDLevel > 0 && inferred.LoDOf == "" {
		inferred.LoDOf = name // the kernel makes the sequences
	}
	meta, err := resolve(declared, inferred, declared.Persistable || slices.Contains(in.Fetch, name))
	if err == nil && open && inferred.LoDOf == name {
		meta.Dims = slices.Clone(inferred.Dims) // and as many rows as it wants, whatever the declaration says
	}
	if err == nil && !open {
		err = decided(name, meta)
	}
	switch {
	case err != nil:
		return err
	case !met:
		where := temporary
		if own, _ := in.Block.Var(name); own == nil || own.Persistable || in.Stay != nil && in.Stay(name) {
			where = scoped
		} else if in.grows[name] || decided(name, meta) != nil || open && lacksSequences(name, meta) {
			where = dynamic
		}
		return in.addOutput(name, meta, where)
	case v.walk != in.walks:
		return in.change(v, meta)
	case v.place == dynamic && in.walks > 0:
		return in.change(v, joined(v.meta, meta))
	case v.place == dynamic:
		v.meta = joined(v.meta, meta)
	case v.meta.DType != meta.DType || v.meta.Rows != meta.Rows || !slices.Equal(v.meta.Dims, meta.Dims) && !(open && ops.Compatible(v.meta.Dims, meta.Dims)):
		if open && in.Ops == nil && v.place == temporary && v.meta.DType == meta.DType && v.meta.Kind == program.LoDTensor && meta.Kind == program.LoDTensor {
			return &grown{name}
		}
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(meta.String()), fault.Want(v.meta.String()+", as it was before"))
	}
	return nil
}

// joined describes a variable that has one type or the other: extents that differ are open, and all of them where ranks differ.
func joined(a, b ops.Meta) ops.Meta {
	switch {
	case len(a.Dims) == 0 || len(a.Dims) != len(b.Dims):
		a.Dims = slices.Clone(b.Dims)
		return a
	case slices.Equal(a.Dims, b.Dims):
		return a
	}
	a.Dims = slices.Clone(a.Dims)
	for i := range a.Dims {
		if a.Dims[i] != b.Dims[i] {
			a.Dims[i] = program.Unknown
		}
	}
	return a
}

// resolve combines the inferred with the declared Meta. They must agree if the variable is bound: persistable or fetched. The declaration of any other
// is a hint.
func resolve(declared *program.Var, inferred ops.Meta, bound bool) (ops.Meta, error) {
	want := ops.MetaOf(declared)
	if inferred.Dims == nil && inferred.Kind == 0 {
		inferred = want.WithoutLoD() // of an op such as load, only the declaration describes the output
		inferred.Dims = slices.Clone(want.Dims)
	}
	switch {
	case inferred.Kind != want.Kind || bound && inferred.DType != want.DType:
		return want, fault.E(fault.TypeMismatch, fault.Var(declared.Name), fault.Got(inferred.String()), fault.Want(want.String()))
	case bound && (declared.Persistable || len(want.Dims) > 0) && !ops.Compatible(inferred.Dims, want.Dims):
		return want, fault.E(fault.ShapeMismatch, fault.Var(declared.Name), fault.Got(inferred.String()), fault.Want(want.String()))
	}
	meta := inferred
	if slices.Contains(meta.Dims, program.Unknown) && ops.Compatible(inferred.Dims, want.Dims) {
		meta.Dims = slices.Clone(meta.Dims)
		for i, d := range meta.Dims {
			if d == program.Unknown {
				meta.Dims[i] = want.Dims[i]
			}
		}
	}
	return meta, nil
}

// decided fails if some dims are still unknown.
func decided(name string, meta ops.Meta) error {
	if meta.Rows == program.Unknown || slices.Contains(meta.Dims, program.Unknown) {
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("open dims %v", meta.Dims),
			fault.Want("dims that follow from the feeds"), fault.Hint("declare the extent, or feed what decides it"))
	}
	return nil
}

// lacksSequences reports whether nobody knows yet how many sequences a variable has, and the kernel that makes them hands them on to no other variable. What reads it must wait.
func lacksSequences(name string, meta ops.Meta) bool {
	return meta.LoDLevel > len(meta.Sequences) && meta.LoDOf != name
}

// addFeed records a variable that gets its value from outside.
func (in *inference) addFeed(name string) {
	meta := in.Feeds[name]
	if meta.LoDLevel > 0 {
		meta.LoDOf = name
	}
	in.variables.add(name, meta, fed)
}

// border reports whether the outputs of an op come from outside of the program: those of feed and read ops.
func border(op *program.Op) bool {
	def, ok := ops.Lookup(op.Type)
	return ok && (def.Class == ops.Feed || def.Class == ops.Read)
}

// fetchUntouched finds the value of a fetched variable that no op touches.
func (in *inference) fetchUntouched(name string) error {
	declared, ok := in.Block.Find(name)
	if ok && declared.Kind == program.LoDTensor {
		if t, found := in.Scope.Find(name); found {
			in.variables.add(name, ops.Meta{Kind: program.LoDTensor, DType: t.DType(), Dims: t.Dims()}, scoped)
			return nil
		}
	}
	return fault.E(fault.NotFound, fault.At("fetch"), fault.Var(name), fault.Got("a variable that no op computes"), fault.Want("a variable to fetch"))
}

// isTensor reports whether a variable has elements: it is a tensor, or some rows of one.
func isTensor(v *program.Var) bool {
	return v.Kind == program.LoDTensor || v.Kind == program.SelectedRows
}

// addOutput adds a variable that an op computes. Selected rows are two pieces of memory: the elements and the numbers of the rows. The numbers are
// a variable that cannot be found by name.
func (in *inference) addOutput(name string, meta ops.Meta, where place) error {
	if meta.Kind != program.SelectedRows {
		in.variables.add(name, meta, where).made = true
		return nil
	}
	if where == scoped {
		return fault.E(fault.Unsupported, fault.Var(name), fault.Gotf("a variable that outlives the run and holds %v", meta),
			fault.Want("a dense tensor"))
	}
	numbers := in.variables.add("", ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{meta.Rows}}, where)
	numbers.name = name + " rows" // for people
	in.variables.add(name, meta, where).rows = numbers
	return nil
}
