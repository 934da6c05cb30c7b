package program_test

import (
	"bytes"
	"io"
	"runtime"
	"strconv"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"google.golang.org/protobuf/encoding/protowire"
)

var hostile = map[string]struct {
	data  []byte
	kind  fault.Kind
	words []string
}{
	"empty file":                    {nil, fault.Corrupt, []string{"no block"}},
	"trailing zero":                 {append(block(), 0), fault.Corrupt, []string{"byte 15"}},
	"trailing text":                 {append(block(), "garbage"...), fault.Corrupt, []string{"byte 16"}},
	"truncated":                     {block(variable("x", 1))[:20], fault.Corrupt, []string{"byte 1"}},
	"length past the end":           {[]byte{0x0a, 0xff, 0xff, 0xff, 0x7f}, fault.Corrupt, []string{"byte 1"}},
	"group without an end":          {append(block(), protowire.AppendTag(nil, 50, protowire.StartGroupType)...), fault.Corrupt, nil},
	"end of another group":          {append(block(), 0x93, 0x03, 0x9c, 0x03), fault.Corrupt, []string{"end of group 51", "end of group 50"}},
	"10000 groups":                  {append(block(), nestedGroups(10_000)...), fault.TooLarge, []string{"depth of nesting"}},
	"10000 groups in an attribute":  {attr(nestedGroups(10_000)), fault.TooLarge, []string{"depth of nesting"}},
	"a million blocks":              {bytes.Repeat([]byte{0x0a, 0x00}, 1_000_000), fault.TooLarge, []string{"blocks", "at most 10000"}},
	"a million blocks in a startup": {field(block(), 1001, bytes.Repeat([]byte{0x0a, 0x00}, 1_000_000)), fault.TooLarge, []string{"blocks"}},
	"two million ops":               {block(bytes.Repeat([]byte{0x22, 0x00}, 2_000_000)), fault.TooLarge, []string{"ops"}},
	"rank of ten million": {block(field(nil, 3,
		field(field(nil, 1, []byte("x")), 2, field(nil, 3, field(nil, 1, field(nil, 2, packedVarints(10_000_000))))))), fault.TooLarge, []string{"rank"}},
	"rank 17, one tag each": {block(variable("x", make([]int64, 17)...)), fault.TooLarge, []string{"rank", "at most 16"}},
	"startup of a startup": {field(block(), 1001, field(block(), 1001, block())), fault.InvalidProgram,
		[]string{"startup program of a startup program"}},
	"startup without block":  {field(block(), 1001, nil), fault.Corrupt, []string{"startup program, program", "no block"}},
	"block without indices":  {field(nil, 1, nil), fault.InvalidProgram, []string{"block 0", "idx"}},
	"block of another index": {field(nil, 1, number(number(nil, 1, 7), 2, 0)), fault.InvalidProgram, []string{"idx 7"}},
	"one name twice": {block(variable("x", 1), variable("y", 1), variable("x", 2)), fault.InvalidProgram,
		[]string{"block 0, variable 2", `"x"`, "second variable"}},
	"variable without name": {block(variable("")), fault.InvalidProgram, []string{"without a name"}},
	"variable without type": {block(field(nil, 3, field(nil, 1, []byte("x")))), fault.InvalidProgram, []string{`"x"`, "no type"}},
	"type without kind": {block(field(nil, 3, field(field(nil, 1, []byte("x")), 2, nil))), fault.InvalidProgram,
		[]string{`"x"`, "without a kind"}},
	"name that is no UTF-8": {block(variable("a\xffb", 1)), fault.Corrupt, []string{"UTF-8", `a\xffb`}},
	"op without type":       {block(field(nil, 4, nil)), fault.InvalidProgram, []string{"block 0, op 0", "without a type"}},
	"empty variable name in a slot": {op(field(nil, 1, field(field(nil, 1, []byte("X")), 2, nil))), fault.InvalidProgram,
		[]string{"relu", `"X"`, "empty"}},
	"slot twice": {op(field(nil, 1, field(nil, 1, []byte("X"))), field(nil, 1, field(nil, 1, []byte("X")))),
		fault.InvalidProgram, []string{`"X"`, "once"}},
	"attribute without type":    {attr(), fault.InvalidProgram, []string{"relu", `"a"`, "without a type"}},
	"attribute without value":   {attr(number(nil, 2, 0)), fault.TypeMismatch, []string{`"a"`, "INT"}},
	"attribute of another kind": {attr(number(nil, 2, 0), field(nil, 5, []byte("text"))), fault.TypeMismatch, []string{`"a"`, "INT"}},
	"attribute of two kinds": {attr(number(nil, 2, 0), number(nil, 3, 1), field(nil, 5, []byte("text"))), fault.TypeMismatch,
		[]string{`"a"`, "INT"}},
	"attribute twice": {op(field(nil, 4, field(number(number(nil, 2, 0), 3, 1), 1, []byte("a"))),
		field(nil, 4, field(number(number(nil, 2, 0), 3, 1), 1, []byte("a")))), fault.InvalidProgram, []string{`"a"`, "once"}},
	"pickle that ends early":        {[]byte("\x80\x02}q\x00(U\x10program_desc_str"), fault.Corrupt, []string{"pickled", "byte 24"}},
	"pickle that calls":             {[]byte("\x80\x02cos\nsystem\n(U\x02lstRR."), fault.Unsupported, []string{"opcode 'c'", "2018-01-24"}},
	"pickle without a program":      {[]byte("\x80\x02}."), fault.Unsupported, []string{"no program_desc_str"}},
	"pickle of something else":      {[]byte("\x80\x02}(U\x01aU\x01bu."), fault.Unsupported, []string{`key "a"`}},
	"pickle that refers to nothing": {[]byte("\x80\x02}(U\x10program_desc_strh\x07u."), fault.Unsupported, []string{"string 7"}},
	"pickle with a long string":     {[]byte("\x80\x02}(U\x10program_desc_strT\xff\xff\xff\xff"), fault.Corrupt, []string{"4294967295 more bytes"}},
	"pickle within a pickle":        {[]byte("\x80\x02}U\x10program_desc_strU\x04\x80\x02}.s."), fault.Unsupported, []string{"within another"}},
	"pickle that feeds what is not there": {append(append([]byte("\x80\x02}(U\x10program_desc_strU"), append([]byte{byte(len(block()))}, block()...)...),
		"U\x0efeed_var_names]U\x01xau."...), fault.InvalidProgram, []string{`"x"`, "pickled"}},
}

func TestHostileFilesAreRefusedWithAReason(t *testing.T) {
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			_, err := program.Decode(test.data, program.Limits{})
			requireFault(t, err, test.kind, test.words...)
		})
	}
}

func TestEveryLimitIsMet(t *testing.T) {
	slots := field(nil, 1, field(field(field(nil, 1, []byte("X")), 2, []byte("a")), 2, []byte("b")))
	tests := map[string]struct {
		data   []byte
		limits program.Limits
	}{
		"bytes":             {block(), program.Limits{Bytes: 3}},
		"blocks":            {append(block(), block()...), program.Limits{Blocks: 1}},
		"variables":         {block(variable("x"), variable("y")), program.Limits{Vars: 1}},
		"ops":               {block(field(nil, 4, nil), field(nil, 4, nil)), program.Limits{Ops: 1}},
		"attributes":        {op(field(nil, 4, nil), field(nil, 4, nil)), program.Limits{Attrs: 1}},
		"arguments":         {op(slots), program.Limits{Arguments: 2}},
		"list elements":     {attr(field(nil, 6, packedVarints(5))), program.Limits{Elements: 4}},
		"bytes of a string": {attr(field(nil, 5, []byte("12345"))), program.Limits{String: 4}},
		"rank":              {block(variable("x", 1, 2)), program.Limits{Rank: 1}},
		"depth of nesting":  {block(variable("x")), program.Limits{Depth: 3}},
		"bytes of memory":   {block(variable("x"), variable("y")), program.Limits{Memory: 1 << 10}},
		"variables, elements": {block(field(nil, 3, field(field(nil, 1, []byte("x")), 2, field(nil, 7, field(nil, 1, packedVarints(5)))))),
			program.Limits{Elements: 4}},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			_, err := program.Decode(test.data, test.limits)
			requireFault(t, err, fault.TooLarge)
		})
	}
}

func TestAllFaultsOfAFileComeAtOnceUpToALimit(t *testing.T) {
	_, err := program.Decode(block(bytes.Repeat(field(nil, 4, nil), 150)), program.Limits{})
	requireFault(t, err, fault.InvalidProgram, "block 0, op 0", "block 0, op 99", "and 50 more")
}

// A hostile file must not cost much more memory than it has bytes.
func TestRefusingAllocatesLittle(t *testing.T) {
	for _, name := range []string{"a million blocks", "rank of ten million", "10000 groups", "two million ops"} {
		data := hostile[name].data
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := program.Decode(data, program.Limits{})
		runtime.ReadMemStats(&after)
		requireFault(t, err, fault.TooLarge)
		allocated := after.TotalAlloc - before.TotalAlloc
		if allocated > 100_000 {
			t.Errorf("%s: refusing allocated %d bytes", name, allocated)
		}
	}
}

// The memory that a file may take is counted before it is decoded, so what is counted must not be less than what decoding takes.
func TestDecodingTakesWhatIsCounted(t *testing.T) {
	const n = 20_000
	many := func(make func(i int) []byte) (b []byte) {
		for i := range n {
			b = append(b, make(i)...)
		}
		return b
	}
	named := func(i int) []byte { return field(nil, 1, []byte(strconv.Itoa(i))) }
	for name, data := range map[string][]byte{
		"ops":        block(many(func(int) []byte { return field(nil, 4, field(nil, 3, []byte("x"))) })),
		"variables":  block(many(func(i int) []byte { return field(nil, 3, field(named(i), 2, number(nil, 1, 7))) })),
		"attributes": op(many(func(i int) []byte { return field(nil, 4, append(number(number(nil, 2, 0), 3, 1), named(i)...)) })),
		"slots":      op(many(func(i int) []byte { return field(nil, 1, named(i)) })),
		"arguments":  op(field(nil, 1, append(field(nil, 1, []byte("X")), many(func(int) []byte { return field(nil, 2, []byte("a")) })...))),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := program.Decode(data, program.Limits{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		allocated := int64(after.TotalAlloc - before.TotalAlloc)
		_, err := program.Decode(data, program.Limits{Memory: allocated - allocated/4})
		requireFault(t, err, fault.TooLarge, "bytes of memory")
	}
}

// A repeated field that is not a list is legal in protobuf: the last one counts.
func TestARepeatedFieldCountsOnce(t *testing.T) {
	p := decode(t, append(block(variable("x", 3)), number(nil, 60, 1)...))
	again := decode(t, append(append(block(variable("x", 3)), field(nil, 4, number(nil, 1, 5))...), field(nil, 4, number(nil, 1, 6))...))
	if again.Version != 6 || p.Version != 0 {
		t.Errorf("versions %d and %d", again.Version, p.Version)
	}
}

// FuzzDecode looks for bytes that make Decode panic, or that change when they are decoded and encoded again.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, regression(f)))
	for _, test := range hostile {
		if len(test.data) < 1000 {
			f.Add(test.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := program.Decode(data, program.Limits{Bytes: 1 << 20, Elements: 1 << 16})
		if err != nil {
			return
		}
		once := encode(t, p)
		again, err := program.Decode(once, program.Limits{})
		if err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
		if twice := encode(t, again); !bytes.Equal(once, twice) {
			t.Fatalf("encoding twice gives\n%x and\n%x", once, twice)
		}
		if !bytes.Equal(once, encode(t, p.Clone())) {
			t.Fatal("a clone is another program")
		}
		// None of these may panic, even for a program without a meaning.
		_ = program.Verify(p, program.Spec{})
		p.CloneForTest()
		for _, b := range p.Blocks {
			b.Uses()
		}
		if err := p.Text(io.Discard, program.TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := p.JSON(io.Discard); err != nil {
			t.Fatal(err)
		}
		if _, err := p.ProtoText(); err != nil {
			t.Fatal(err)
		}
	})
}
