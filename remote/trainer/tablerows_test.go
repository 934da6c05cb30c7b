package trainer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// wantRows are rows of one table, from first on, whose elements have no value yet.
func wantRows(name string, server, rows, width int, first int32, keys bool) ops.RowsMessage {
	m := ops.RowsMessage{Name: name, Server: server, Into: make([]float32, rows*width)}
	for i := range rows {
		if keys {
			m.Keys = append(m.Keys, int64(first)+int64(i))
		} else {
			m.Rows = append(m.Rows, first+int32(i))
		}
	}
	return m
}

// Requests together ask each server for all rows that are wanted of it, each once and in order, within the limits of one request. No two requests in a row could be one.
func TestRequestsForRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const servers = 2
		var wanted []ops.RowsMessage
		for i := range rapid.IntRange(0, 6).Draw(t, "tables") {
			rows := rapid.SampledFrom([]int{1, 3, 1000, rowsAtOnce - 1, rowsAtOnce, rowsAtOnce + 5}).Draw(t, "rows")
			width := rapid.SampledFrom([]int{1, 8, 33}).Draw(t, "width")
			wanted = append(wanted, wantRows(fmt.Sprint("t", i), rapid.IntRange(0, servers-1).Draw(t, "server"), rows, width, int32(i), rapid.Bool().Draw(t, "keys")))
		}
		asks, err := requestsOf(wanted, servers)
		if err != nil {
			t.Fatal(err)
		}
		for server := range servers {
			var mine []ops.RowsMessage
			for _, m := range wanted {
				if m.Server == server {
					mine = append(mine, m)
				}
			}
			last := (*rowsAsk)(nil)
			for _, ask := range asks {
				if ask.server != server {
					continue
				}
				rows, elements := 0, 0
				for _, m := range ask.messages {
					rows, elements = rows+len(m.Rows)+len(m.Keys), elements+len(m.Into)
					have := &mine[0]
					n := len(m.Rows) + len(m.Keys)
					width := len(m.Into) / n
					if m.Name != have.Name || &m.Into[0] != &have.Into[0] || !slices.Equal(m.Rows, have.Rows[:min(n, len(have.Rows))]) || !slices.Equal(m.Keys, have.Keys[:min(n, len(have.Keys))]) {
						t.Fatalf("a request for %d rows of %s, where %d of %s come next", n, m.Name, len(have.Rows)+len(have.Keys), have.Name)
					}
					if have.Into = have.Into[n*width:]; len(have.Into) == 0 {
						mine = mine[1:]
					} else if have.Keys != nil {
						have.Keys = have.Keys[n:]
					} else {
						have.Rows = have.Rows[n:]
					}
				}
				if rows != ask.rows || elements != ask.elements || rows > rowsAtOnce || elements > rowBytesAtOnce/4 || len(ask.messages) > tablesAtOnce {
					t.Fatalf("a request for %d rows and %d elements, which says %d and %d", rows, elements, ask.rows, ask.elements)
				}
				if last != nil {
					first := ask.messages[0]
					width := len(first.Into) / (len(first.Rows) + len(first.Keys))
					if last.rows < rowsAtOnce && last.elements+width <= rowBytesAtOnce/4 {
						t.Fatalf("a request for %d rows and %d elements has room for more", last.rows, last.elements)
					}
				}
				last = ask
			}
			if len(mine) > 0 {
				t.Fatalf("rows of %s are not asked for", mine[0].Name)
			}
		}
	})
}

// A request names at most so many tables, and a row may be larger than what a request is for else.
func TestRequestsForManyTables(t *testing.T) {
	var wanted []ops.RowsMessage
	for i := range tablesAtOnce + 1 {
		wanted = append(wanted, wantRows(fmt.Sprint("t", i), 0, 1, 1, 0, false))
	}
	asks, err := requestsOf(append(wanted, wantRows("wide", 0, 2, rowBytesAtOnce/4+1, 0, false)), 1)
	if err != nil {
		t.Fatal(err)
	}
	var tables []int
	for _, ask := range asks {
		tables = append(tables, len(ask.messages))
	}
	if !slices.Equal(tables, []int{tablesAtOnce, 1, 1, 1}) {
		t.Errorf("requests for %v tables", tables)
	}
	if _, err := requestsOf(wanted, 0); !errors.Is(err, fault.InvalidProgram) {
		t.Errorf("a server that does not exist: %v", err)
	}
}

// answerOf is an answer with elements of 1, 2, 3 and so on for parts that are stored as stored.
func answerOf(t testing.TB, parts []ops.RowsMessage, stored ...tensor.DType) (words []int32) {
	t.Helper()
	next := float32(1)
	for i, m := range parts {
		part := make([]int32, wire.RowsWords(stored[i], len(m.Into)))
		elements, left, err := wire.BeginRows(part, stored[i], len(m.Into))
		if err != nil || len(left) > 0 {
			t.Fatal(err, left)
		}
		values := make([]float32, len(m.Into))
		for j := range values {
			values[j] = next
			next++
		}
		if stored[i] == tensor.BFloat16 {
			kernel.ToBFloat16(tensor.Data[uint16](elements), values)
		} else {
			copy(elements.Float32s(), values)
		}
		words = append(words, part...)
	}
	return words
}

// Rows of an answer go where they are wanted, whichever way their table is stored.
func TestRowsArePlaced(t *testing.T) {
	ask := &rowsAsk{}
	for i, width := range []int{3, 1, 5} {
		ask.add(wantRows(fmt.Sprint("t", i), 0, 3, width, 0, i == 1))
	}
	words := answerOf(t, ask.messages, tensor.BFloat16, tensor.Float32, tensor.BFloat16)
	if err := ask.place(words); err != nil {
		t.Fatal(err)
	}
	next := float32(1)
	for _, m := range ask.messages {
		for _, got := range m.Into {
			if got != next {
				t.Fatalf("%s has %v, want %v next", m.Name, m.Into, next)
			}
			next++
		}
	}
	for name, words := range map[string][]int32{
		"nothing":                  {},
		"a table less":             words[:len(words)-wire.RowsWords(tensor.BFloat16, 15)],
		"a word less":              words[:len(words)-1],
		"a word more":              append(slices.Clone(words), 0),
		"rows of integers":         append([]int32{int32(tensor.Int32)}, words[1:]...),
		"rows of no type":          append([]int32{-1}, words[1:]...),
		"float32 for the bfloat16": append([]int32{int32(tensor.Float32)}, words[1:]...),
	} {
		if err := ask.place(words); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any words are rows for all that is wanted, or an error.
func FuzzRowsAnswer(f *testing.F) {
	ask := &rowsAsk{}
	ask.add(wantRows("a", 0, 3, 1, 0, false))
	ask.add(wantRows("b", 0, 1, 2, 0, true))
	for _, stored := range [][]tensor.DType{{tensor.BFloat16, tensor.Float32}, {tensor.Float32, tensor.BFloat16}} {
		var b []byte
		for _, word := range answerOf(f, ask.messages, stored...) {
			b = append(b, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
		}
		f.Add(b)
		f.Add(b[:len(b)-4])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		words := make([]int32, len(b)/4)
		for i := range words {
			words[i] = int32(b[4*i]) | int32(b[4*i+1])<<8 | int32(b[4*i+2])<<16 | int32(b[4*i+3])<<24
		}
		err := ask.place(words)
		if err != nil && !errors.Is(err, fault.Corrupt) {
			t.Errorf("refused as %v", err)
		}
		if size := len(words); err == nil && (size < 2+2+1 || size > 2+3+2) {
			t.Errorf("%d words are rows", size)
		}
	})
}
