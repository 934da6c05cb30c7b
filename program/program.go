// Package program is the intermediate representation: what to compute, as data.
//
// A Program is a list of Blocks; a Block holds variables (Var) and a list of operators (Op) that run in order; an Op
// names its type, the variables in its input and output slots, and attributes. Sub-blocks find names through their parents.
// It is Fluid's ProgramDesc as Go values: files of Fluid's generations B, C and D are read and generation D is written, so
// a file made here opens in tools made for Fluid's. A Program carries its startup program (initial values of the
// persistable variables) with it, so that one file is one whole model.
//
// Nothing here computes or knows what an op type means: the op registry (package ops) tells the verifier through the
// OpRules interface. Programs come from outside, so decoding meets limits before it allocates, and Verify reports every fault at
// once with op, variable and the line of user code that built the op.
//
// A Program is not safe for concurrent use while anything changes it.
package program

import (
	"github.com/edl-go/edl/fault"
)

// A Program is a list of blocks, the first of which is the global block.
type Program struct {
	Blocks  []*Block
	Startup *Program // gives the persistable variables their initial values; nil in a startup program itself
	Version int64    // writer's version as in Fluid: major*1000000 + minor*1000 + patch

	counters map[string]int // next number per prefix of UniqueName, nil until the first call
	rest     []byte         // of ProgramDesc: everything that is not in the fields above
}

// New returns a program of one empty block, with an empty startup program.
func New() *Program {
	p := bare()
	p.Startup = bare()
	return p
}

// NewStartup returns a program of one empty block and no startup of its own.
func NewStartup() *Program { return bare() }

func bare() *Program {
	p := &Program{}
	p.NewBlock(nil)
	return p
}

// Global returns block 0, where parameters live.
func (p *Program) Global() *Block { return p.Blocks[0] }

// NewBlock appends a block whose names are also looked up in parent. A nil parent makes a root.
func (p *Program) NewBlock(parent *Block) *Block {
	b := &Block{Index: len(p.Blocks), Parent: NoBlock, Forward: NoBlock, program: p}
	if parent != nil {
		b.Parent = parent.Index
	}
	p.Blocks = append(p.Blocks, b)
	return b
}

// Block returns the block of an index, as BLOCK attributes hold it.
func (p *Program) Block(index BlockIndex) (*Block, error) {
	if index < 0 || int(index) >= len(p.Blocks) {
		return nil, fault.E(fault.InvalidProgram, fault.Gotf("block %d", index), fault.Wantf("0 to %d", len(p.Blocks)-1))
	}
	return p.Blocks[index], nil
}
