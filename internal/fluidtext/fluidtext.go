// Package fluidtext reads programs as tests write them down: in the form in which Paddle writes them, one line for each variable and op, with all attributes. It is for tests.
//
//	var NAME DTYPE [DIMS] [param] [value=X] [lod=N] [KIND] [feed=[DIMS] [offsets=[LOD]]]
//	TYPE SLOT=NAME,... -> SLOT=NAME,... | ATTRIBUTE=VALUE ...
//	block INDEX PARENT [gradient=INDEX]
//	global
//	version NUMBER
//	fetch NAME,...
//
// A variable without a line is a float32 tensor of dims [], as Paddle often declares temporary ones. "param" makes one persistable. With value=X, or value=random, the startup
// program gives it its first value. KIND is "rows" (SELECTED_ROWS), "array", "ranktable", "scopes" or "places" (PLACE_LIST). Lines after "block" belong to that block, and those after "global" to the global block again.
//
// Of attributes 1 is INT, 1L LONG, 1.0f FLOAT and block:1 BLOCK; lists have the type of their elements. scalar:1.5 is SCALAR, scalars:[1,2.5,true] SCALARS, var:NAME VAR and
// vars:NAME,... VARS, which later versions of Paddle write.
package fluidtext

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Feed is what a test feeds for a variable.
type Feed struct {
	Dims    []int64
	Offsets [][]int64 // nil without sequences
}

// A Model is a program with what a test feeds and fetches.
type Model struct {
	Program *program.Program
	Feeds   map[string]Feed
	Fetch   []string
}

// Read reads a program. It goes through the bytes of a file, so it is as one that was saved.
func Read(text string) (*Model, error) {
	m := &Model{Program: program.New(), Feeds: map[string]Feed{}}
	b := m.Program.Global()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var err error
		switch words[0] {
		case "version":
			m.Program.Version, err = strconv.ParseInt(words[1], 10, 64)
		case "fetch":
			m.Fetch = strings.Split(words[1], ",")
		case "global":
			b = m.Program.Global()
		case "block":
			var parent int
			if parent, err = strconv.Atoi(words[2]); err == nil {
				b = m.Program.NewBlock(m.Program.Blocks[parent])
				if len(words) > 3 {
					b.Forward, err = strconv.Atoi(strings.TrimPrefix(words[3], "gradient="))
				}
			}
		case "var":
			err = m.declare(b, words[1:])
		default:
			err = Append(b, line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
	}
	encoded, err := m.Program.Encode()
	if err != nil {
		return nil, err
	}
	if encoded, err = writeLater(encoded); err != nil {
		return nil, err
	}
	m.Program, err = program.Decode(encoded, program.Limits{})
	return m, err
}

// Again returns a program as it is when it has been written and read.
func Again(p *program.Program) (*program.Program, error) {
	encoded, err := p.Encode()
	if err != nil {
		return nil, err
	}
	return program.Decode(encoded, program.Limits{})
}

// declare reads NAME DTYPE DIMS and what follows.
func (m *Model) declare(b *program.Block, words []string) error {
	dtype, known := tensor.ParseDType(words[1])
	if !known {
		return fmt.Errorf("type %q", words[1])
	}
	v := program.Var{Name: words[0], Kind: program.LoDTensor, DType: dtype}
	if err := json.Unmarshal([]byte(words[2]), &v.Dims); err != nil {
		return err
	}
	first := ""
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		var err error
		feed := m.Feeds[v.Name]
		switch key {
		case "param":
			v.Persistable = true
		case "value":
			v.Persistable, first = true, value
		case "lod":
			v.LoDLevel, err = strconv.Atoi(value)
		case "array":
			v.Kind = program.LoDTensorArray
		case "ranktable":
			v.Kind = program.LoDRankTable
		case "rows":
			v.Kind = program.SelectedRows
		case "scopes":
			v.Kind = program.StepScopes
		case "places":
			v.Kind = 14
		case "feed":
			v.NeedCheckFeed = true
			err = json.Unmarshal([]byte(value), &feed.Dims)
			m.Feeds[v.Name] = feed
		case "offsets":
			err = json.Unmarshal([]byte(value), &feed.Offsets)
			m.Feeds[v.Name] = feed
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		if err != nil {
			return err
		}
	}
	b.EnsureVar(v)
	if first == "" {
		return nil
	}
	startup := m.Program.Startup.Global()
	startup.EnsureVar(v)
	op := &program.Op{Type: "uniform_random", Outputs: map[string][]string{"Out": {v.Name}},
		Attrs: map[string]program.Attr{"shape": v.Dims, "dtype": int32(dtype), "min": float32(-0.5), "max": float32(0.5), "seed": int32(1 + len(startup.Ops))}}
	if first != "random" {
		x, err := strconv.ParseFloat(first, 32)
		if err != nil {
			return err
		}
		op = &program.Op{Type: "fill_constant", Outputs: op.Outputs, Attrs: map[string]program.Attr{"shape": v.Dims, "dtype": int32(dtype), "value": float32(x)}}
	}
	startup.Append(op)
	return nil
}

// Append appends the ops of some lines to a block, and declares the variables that it does not know, but for gradients that nothing computes: Fluid names them, and
// declares none.
func Append(b *program.Block, lines string) error {
	for line := range strings.Lines(lines) {
		op, err := parseOp(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
			read := strings.HasSuffix(name, program.GradSuffix) && !slices.Contains(op.OutputNames(), name)
			if _, known := b.Find(name); !known && !read {
				b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32})
			}
		}
		b.Append(op)
	}
	return nil
}

func parseOp(line string) (*program.Op, error) {
	slots, attrs, _ := strings.Cut(line, " |")
	ins, outs, _ := strings.Cut(slots, " -> ")
	op := &program.Op{Type: strings.Fields(ins)[0], Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{"op_role": int32(0), "op_namescope": "/"}}
	for to, text := range map[*map[string][]string]string{&op.Inputs: ins[len(op.Type):], &op.Outputs: outs} {
		for _, word := range strings.Fields(text) {
			slot, names, _ := strings.Cut(word, "=")
			(*to)[slot] = strings.Split(names, ",")
		}
	}
	for _, word := range strings.Fields(attrs) {
		name, value, _ := strings.Cut(word, "=")
		attr, err := parseAttr(value)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		op.Attrs[name] = attr
	}
	return op, nil
}

func parseAttr(value string) (program.Attr, error) {
	switch {
	case value == "true" || value == "false":
		return value == "true", nil
	case strings.HasPrefix(value, `"`):
		return strings.Trim(value, `"`), nil
	case slices.ContainsFunc(laterTypes, func(prefix string) bool { return strings.HasPrefix(value, prefix) }):
		return laterMark + value, nil
	case strings.HasPrefix(value, "block:"):
		n, err := strconv.Atoi(value[len("block:"):])
		return program.BlockIndex(n), err
	case strings.HasPrefix(value, `["`):
		return parseList[string](value)
	case strings.HasPrefix(value, "[") && strings.Contains(value, "f"):
		return parseList[float32](strings.ReplaceAll(value, "f", ""))
	case strings.HasPrefix(value, "[") && strings.Contains(value, "L"):
		return parseList[int64](strings.ReplaceAll(value, "L", ""))
	case strings.HasPrefix(value, "["):
		return parseList[int32](value)
	case strings.HasSuffix(value, "f"):
		x, err := strconv.ParseFloat(value[:len(value)-1], 32)
		return float32(x), err
	case strings.HasSuffix(value, "L"):
		return strconv.ParseInt(value[:len(value)-1], 10, 64)
	}
	n, err := strconv.ParseInt(value, 10, 32)
	return int32(n), err
}

func parseList[T any](value string) (list []T, err error) {
	err = json.Unmarshal([]byte(value), &list)
	return list, err
}
