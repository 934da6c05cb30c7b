package executor_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The files of testdata/programs are programs as Paddle writes them for models that people use, with all attributes, and with the declarations that temporary variables
// get there. Each line is a variable, an op, a block or the fetches:
//
//	var NAME DTYPE [DIMS] [param] [lod=N] [KIND] [feed=[DIMS] [offsets=[LOD]]]
//	TYPE SLOT=NAME,... -> SLOT=NAME,... | ATTRIBUTE=VALUE ...
//	block INDEX PARENT
//	fetch NAME,...
//
// A variable without a line is a float32 tensor of dims [].

// TestProgramsOfPaddleRun runs each of them, once it has been written and read, on small numbers.
func TestProgramsOfPaddleRun(t *testing.T) {
	paths, err := filepath.Glob("testdata/programs/*.txt")
	if err != nil || len(paths) < 25 {
		t.Fatalf("%d programs, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			p, feed, fetch := readProgram(t, path)
			l := executor.New()
			defer l.Close()
			for _, name := range executor.Persistables(p) {
				v, _ := p.Global().Var(name)
				if err := l.Scope().Set(name, smallNumbers(t, v.DType, v.Dims)); err != nil {
					t.Fatal(err)
				}
			}
			out, err := l.Run(t.Context(), p, feed, fetch...)
			if err != nil {
				t.Fatal(err)
			}
			for i, value := range out {
				for _, x := range value.Float32s() {
					if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
						t.Fatalf("%s = %v", fetch[i], value)
					}
				}
			}
		})
	}
}

// smallNumbers are not all equal, and positive: some of them are variances.
func smallNumbers(t *testing.T, dtype tensor.DType, dims []int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Len() {
		switch dtype {
		case tensor.Float32:
			x.Float32s()[i] = float32(i%7+1) / 16
		case tensor.Int32:
			x.Int32s()[i] = int32(i % 3)
		case tensor.Int64:
			x.Int64s()[i] = int64(i % 3)
		}
	}
	return x
}

func readProgram(t *testing.T, path string) (p *program.Program, feed executor.Feed, fetch []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p = program.New()
	b, offsets := p.Global(), map[string][][]int64{}
	feeds := map[string][]int64{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch words[0] {
		case "fetch":
			fetch = strings.Split(words[1], ",")
		case "block":
			parent, _ := strconv.Atoi(words[2])
			b = p.NewBlock(p.Blocks[parent])
		case "var":
			dtype, _ := tensor.ParseDType(words[2])
			v := program.Var{Name: words[1], Kind: program.LoDTensor, DType: dtype}
			fromJSON(t, words[3], &v.Dims)
			for _, word := range words[4:] {
				key, value, _ := strings.Cut(word, "=")
				switch key {
				case "param":
					v.Persistable = true
				case "lod":
					v.LoDLevel, _ = strconv.Atoi(value)
				case "array":
					v.Kind = program.LoDTensorArray
				case "ranktable":
					v.Kind = program.LoDRankTable
				case "scopes":
					v.Kind = program.StepScopes
				case "feed":
					var dims []int64
					fromJSON(t, value, &dims)
					feeds[v.Name], v.NeedCheckFeed = dims, true
				case "offsets":
					var lod [][]int64
					fromJSON(t, value, &lod)
					offsets[v.Name] = lod
				}
			}
			b.EnsureVar(v)
		default:
			addLines(t, b, line)
		}
	}
	p = again(t, p)
	feed = executor.Feed{}
	for name, dims := range feeds {
		v, _ := p.Global().Var(name)
		x := smallNumbers(t, v.DType, dims)
		if lod := offsets[name]; lod != nil {
			x.SetLoD(lod)
		}
		feed[name] = x
	}
	return p, feed, fetch
}

// again returns a program as it is when it has been written and read.
func again(t *testing.T, p *program.Program) *program.Program {
	t.Helper()
	encoded, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = program.Decode(encoded, program.Limits{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// addLines appends ops to a block, and declares the variables that it does not know.
func addLines(t *testing.T, b *program.Block, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		op := opOfLine(t, strings.TrimSpace(line))
		for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
			if _, known := b.Find(name); !known {
				b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32})
			}
		}
		b.Append(op)
	}
}

func opOfLine(t *testing.T, line string) *program.Op {
	t.Helper()
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
		op.Attrs[name] = attrOf(t, value)
	}
	return op
}

// attrOf reads a value: 1 is INT, 1L LONG, 1.0f FLOAT, block:1 BLOCK, and lists have the type of their elements.
func attrOf(t *testing.T, value string) program.Attr {
	t.Helper()
	switch {
	case value == "true" || value == "false":
		return value == "true"
	case strings.HasPrefix(value, `"`):
		return strings.Trim(value, `"`)
	case strings.HasPrefix(value, "block:"):
		n, _ := strconv.Atoi(value[len("block:"):])
		return program.BlockIndex(n)
	case strings.HasPrefix(value, `["`):
		return listOf[string](t, value)
	case strings.HasPrefix(value, "[") && strings.Contains(value, "f"):
		return listOf[float32](t, strings.ReplaceAll(value, "f", ""))
	case strings.HasPrefix(value, "[") && strings.Contains(value, "L"):
		return listOf[int64](t, strings.ReplaceAll(value, "L", ""))
	case strings.HasPrefix(value, "["):
		return listOf[int32](t, value)
	case strings.HasSuffix(value, "f"):
		x, _ := strconv.ParseFloat(value[:len(value)-1], 32)
		return float32(x)
	case strings.HasSuffix(value, "L"):
		n, _ := strconv.ParseInt(value[:len(value)-1], 10, 64)
		return n
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		t.Fatal(fmt.Errorf("attribute %s: %w", value, err))
	}
	return int32(n)
}

func listOf[T any](t *testing.T, value string) (list []T) {
	t.Helper()
	fromJSON(t, value, &list)
	return list
}

func fromJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
