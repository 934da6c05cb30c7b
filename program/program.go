// Package program is the intermediate representation (IR): what to compute, as data.
//
// A Program is a list of Blocks. A Block holds variables (Var) and operators (Op), which run in order. An Op has a type, names of variables in
// input and output slots, and attributes. A sub-block also finds the names of its parents. The IR is Fluid's ProgramDesc in Go. It reads files of
// Fluid's generations B, C and D and writes generation D, so tools made for Fluid's files open ours. A Program carries its startup program, which
// initializes the persistable variables, so one file holds a whole model.
//
// Nothing in this package computes or knows what an op type means. The op registry (package ops) tells the verifier through the interface OpRules.
// Programs come from outside. So Decode checks limits before it allocates, and Verify reports all faults at once, each with op, variable and the
// line of user code that built the op.
//
// A Program is not safe for concurrent use while somebody changes it.
//
// Files in reading order: program.go (Program, Block), var.go, op.go, attr.go; uses.go and prune.go (questions and changes); verify.go,
// verify_ops.go; file.go, scan.go, decode.go, encode.go, generation.go (files); text.go, prototext.go, json.go (for people and scripts). Package
// draw makes pictures.
package program

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// A Program is a list of blocks. The first is the global block.
type Program struct {
	Blocks  []*Block
	Startup *Program // initializes the persistable variables; nil in a startup program
	Version int64    // writer's version as in Fluid: major*1000000 + minor*1000 + patch

	counters map[string]int // next number per prefix of UniqueName, nil until the first call
	rest     []byte         // of ProgramDesc: everything that is not in the fields above
}

// New returns a program with one empty block and an empty startup program.
func New() *Program {
	p := bare()
	p.Startup = bare()
	return p
}

// NewStartup returns a program with one empty block and no startup program.
func NewStartup() *Program { return bare() }

func bare() *Program {
	p := &Program{}
	p.NewBlock(nil)
	return p
}

// Global returns block 0, which holds the parameters.
func (p *Program) Global() *Block { return p.Blocks[0] }

// NewBlock appends a block that also finds the names of parent. Without a parent it is a root.
func (p *Program) NewBlock(parent *Block) *Block {
	b := &Block{Index: len(p.Blocks), Parent: NoBlock, Forward: NoBlock, program: p}
	if parent != nil {
		b.Parent = parent.Index
	}
	p.Blocks = append(p.Blocks, b)
	return b
}

// Block returns the block with the index of a BLOCK attribute.
func (p *Program) Block(index BlockIndex) (*Block, error) {
	if index < 0 || int(index) >= len(p.Blocks) {
		return nil, fault.E(fault.InvalidProgram, fault.Gotf("block %d", index), fault.Wantf("0 to %d", len(p.Blocks)-1))
	}
	return p.Blocks[index], nil
}

// NoBlock is the Parent of a root block, and the Forward of a block that is no gradient.
const NoBlock = -1

// A Block is a scope of variables and a list of ops that run in order.
type Block struct {
	Index   int
	Parent  int // NoBlock for a root
	Forward int // the block whose gradient this one is, or NoBlock
	Ops     []*Op

	vars    map[string]*Var
	order   []string // names in order of creation
	program *Program
	unknown []byte
}

// Program returns the program of the block.
func (b *Block) Program() *Program { return b.program }

// ParentBlock returns the enclosing block, or nil for a root.
func (b *Block) ParentBlock() *Block {
	if b.Parent < 0 || b.Parent >= len(b.program.Blocks) {
		return nil
	}
	return b.program.Blocks[b.Parent]
}

// Var returns a variable of this block itself.
func (b *Block) Var(name string) (*Var, bool) {
	v, ok := b.vars[name]
	return v, ok
}

// Find returns the variable with a name: of this block, else of the block whose gradient it is, else of the nearest enclosing block. The search ends even
// if the parents form a cycle, as in a hostile file.
func (b *Block) Find(name string) (*Var, bool) {
	for hops := 0; b != nil && hops <= len(b.program.Blocks); hops++ {
		if v, ok := b.vars[name]; ok {
			return v, true
		}
		if f := b.ForwardBlock(); f != nil {
			if v, ok := f.vars[name]; ok {
				return v, true
			}
		}
		b = b.ParentBlock()
	}
	return nil, false
}

// Unknown is the error for a name that Find does not know, where want is wanted. It names the variable that may be meant. An empty name is that of a
// variable of the DSL that no layer has returned.
func (b *Block) Unknown(name, want string) *fault.Fault {
	hint := fault.DidYouMean(name, namesOf(b))
	if name == "" {
		hint = fault.Hint("a layers.Variable that no layer has returned has no name")
	}
	return fault.E(fault.NotFound, fault.Var(name), fault.Got("no such variable in the global block"), fault.Want(want), hint)
}

// ForwardBlock returns the block whose gradient this one is, or nil. The block runs on the variables that a run of that block has left.
func (b *Block) ForwardBlock() *Block {
	if b.Forward < 0 || b.Forward >= len(b.program.Blocks) {
		return nil
	}
	return b.program.Blocks[b.Forward]
}

// Declares reports whether the block, or the block whose gradient it is, declares a name.
func (b *Block) Declares(name string) bool {
	_, ok := b.vars[name]
	if f := b.ForwardBlock(); !ok && f != nil {
		_, ok = f.vars[name]
	}
	return ok
}

// Vars returns the variables of this block in the order of their creation.
func (b *Block) Vars() []*Var {
	vars := make([]*Var, 0, len(b.order))
	for _, name := range b.order {
		vars = append(vars, b.vars[name])
	}
	return vars
}

// AddVar adds a copy of v. It fails if the name is taken.
func (b *Block) AddVar(v Var) (*Var, error) {
	if _, ok := b.vars[v.Name]; ok {
		return nil, fault.E(fault.InvalidProgram, fault.Var(v.Name), fault.Got("a second variable of this name in block "+fmt.Sprint(b.Index)),
			fault.Want("unique names"))
	}
	if b.vars == nil {
		b.vars = map[string]*Var{}
	}
	c := v.clone()
	b.vars[v.Name] = c
	b.order = append(b.order, v.Name)
	return c, nil
}

// EnsureVar returns the block's own variable with the name of v. If there is none, it adds a copy of v.
func (b *Block) EnsureVar(v Var) *Var {
	if have, ok := b.vars[v.Name]; ok {
		return have
	}
	added, _ := b.AddVar(v)
	return added
}

// RemoveVar removes a variable of this block. It does not change ops that name it.
func (b *Block) RemoveVar(name string) {
	if _, ok := b.vars[name]; !ok {
		return
	}
	delete(b.vars, name)
	b.order = slices.DeleteFunc(b.order, func(n string) bool { return n == name })
}

// Append adds op at the end and returns it.
func (b *Block) Append(op *Op) *Op {
	b.Ops = append(b.Ops, op)
	return op
}

// Insert puts ops before position i. With i == len(b.Ops) it appends them.
func (b *Block) Insert(i int, ops ...*Op) {
	b.Ops = slices.Insert(b.Ops, i, ops...)
}

// maxNumbers bounds the numbered parts of a name that count. "fc_0.w_0" has two.
const maxNumbers = 8

// UniqueName returns prefix_0, prefix_1, ... in the order of the calls. Each program counts for itself, so the same calls give the same names in
// every process. The first call starts behind numbers in the names of existing variables. If there is a variable "fc_0.w_0", both "fc" and "fc_0.w"
// go on with 1.
func (p *Program) UniqueName(prefix string) string {
	if p.counters == nil {
		countNames(p)
	}
	n := p.counters[prefix]
	p.counters[prefix]++
	return fmt.Sprintf("%s_%d", prefix, n)
}

// countNames sets the counters from the names of variables.
func countNames(p *Program) {
	p.counters = map[string]int{}
	for _, b := range p.Blocks {
		for _, name := range b.order {
			countName(p, name)
		}
	}
}

// countName counts every part of a name that ends in _<number> before a dot, an @ or the end.
func countName(p *Program, name string) {
	from := 0
	for range maxNumbers {
		end := strings.IndexAny(name[from:], ".@")
		last := end < 0
		if last {
			end = len(name)
		} else {
			end += from
		}
		if bar := strings.LastIndexByte(name[:end], '_'); bar > 0 {
			if n, err := strconv.ParseUint(name[bar+1:end], 10, 31); err == nil {
				p.counters[name[:bar]] = max(p.counters[name[:bar]], int(n)+1)
			}
		}
		if last {
			return
		}
		from = end + 1
	}
}

// Clone returns a copy that shares nothing with p. It also copies the startup program.
func (p *Program) Clone() *Program {
	c := &Program{Version: p.Version, counters: maps.Clone(p.counters), rest: p.rest}
	if p.Startup != nil {
		c.Startup = p.Startup.Clone()
	}
	for _, b := range p.Blocks {
		c.Blocks = append(c.Blocks, b.cloneInto(c))
	}
	return c
}

func (b *Block) cloneInto(p *Program) *Block {
	c := *b
	c.program = p
	c.order = append([]string(nil), b.order...)
	c.vars = make(map[string]*Var, len(b.vars))
	for name, v := range b.vars {
		c.vars[name] = v.clone()
	}
	c.Ops = make([]*Op, 0, len(b.Ops))
	for _, op := range b.Ops {
		c.Ops = append(c.Ops, op.Clone())
	}
	return &c
}

// A Hash identifies the content of a program.
type Hash [sha256.Size]byte

// Hash returns the SHA-256 of the bytes of Encode without the op_callstack attributes. So a moved line of user code does not change the hash. The
// startup program counts.
func (p *Program) Hash() (Hash, error) {
	e := encoder{dropCallstacks: true}
	data, err := e.encode(p)
	if err != nil {
		return Hash{}, err
	}
	return sha256.Sum256(data), nil
}

// String returns all 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short returns the first 12 hexadecimal digits. They distinguish programs for people.
func (h Hash) Short() string { return h.String()[:12] }

// A Stage is the purpose of a program. Package ops has the table of what is legal at each stage.
type Stage int

// Stages of a program.
const (
	StageLocal          Stage = iota // trains or evaluates in one process
	StageStartup                     // initializes the persistable variables of a local program
	StageInference                   // computes targets from feeds
	StageTrainer                     // one trainer's part of distributed training
	StageTrainerStartup              // initializes a trainer
	StagePServer                     // one parameter server's part
	StagePServerStartup              // initializes a parameter server
	StageSave                        // run by a trainer: collects the model from the servers and saves it
)

// String names the stage as messages do, such as "pserver startup".
func (s Stage) String() string {
	names := [...]string{"local", "startup", "inference", "trainer", "trainer startup", "pserver", "pserver startup", "save"}
	if s < 0 || int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}
