package executor

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

func TestProgressSurvivesItsFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	for _, want := range []Progress{
		{},
		{Steps: 7},
		{Steps: math.MaxInt64 / 2, Pass: math.MaxInt32 / 2, Batch: math.MaxInt64, Reader: strings.Repeat("f", 32)},
		{Steps: 7, Pass: 2, Reader: "f", Trained: "0 60 20 20"},
		{Steps: 7, Pass: 2, Batch: 3, Reader: "f", Trained: "0 60 20 20"},
	} {
		if err := WriteProgress(dir, want); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := ReadProgress(dir); got != want || !ok || err != nil {
			t.Errorf("read %+v, %t, %v, want %+v", got, ok, err, want)
		}
	}
	for range 2 {
		if err := RemoveProgress(dir); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := ReadProgress(dir); got != (Progress{}) || ok || err != nil {
			t.Errorf("without a file: %+v, %t, %v", got, ok, err)
		}
	}
}

func TestOnlyDirectoriesHaveProgress(t *testing.T) {
	dir := t.TempDir()
	combined := filepath.Join(dir, "__params__")
	if err := os.WriteFile(combined, []byte("tensors"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := ReadProgress(combined); ok || err != nil {
		t.Errorf("a combined file: %t, %v", ok, err)
	}
	if _, _, err := ReadProgress(filepath.Join(dir, "nowhere")); !errors.Is(err, fault.NotFound) {
		t.Errorf("no directory: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, ProgressFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadProgress(dir); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a directory in place of the file: %v", err)
	}
}

func TestWrongProgressIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []Progress{
		{Pass: -1, Reader: "r"}, {Pass: math.MaxInt32/2 + 1, Reader: "r"}, {Steps: math.MaxInt64/2 + 1}, {Steps: math.MaxUint64}, {Batch: math.MaxInt64 + 1, Reader: "r"}, {Pass: 1}, {Batch: 1},
		{Reader: strings.Repeat("r", 129)}, {Trained: "0 6"}, {Batch: 1, Trained: "0 6"}, {Reader: "r", Trained: "6"}, {Reader: "r", Trained: "0  6"},
		{Reader: "r", Trained: "0 6 0 6"}, {Reader: "r", Trained: "0 +6"}, {Reader: "r", Trained: "0 6" + strings.Repeat(" 1 1", 300000)},
	} {
		if err := WriteProgress(dir, p); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestPassesAreBounded(t *testing.T) {
	for n, wrong := range map[int]bool{-1: true, math.MinInt: true, 0: false, 1: false, math.MaxInt32 / 2: false, math.MaxInt32: true, math.MaxInt: true} {
		if err := CheckPasses(n); errors.Is(err, fault.InvalidArgument) != wrong {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := OpenFiles(t.Context(), program.New(), nil, -1); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "-1 passes") {
		t.Error(err)
	}
}

func TestForeignProgressIsRefused(t *testing.T) {
	const good = `{"version":1,"steps":63,"pass":1,"batch":3,"reader":"ab"}` + "\n"
	if p, err := decodeProgress([]byte(good)); err != nil || p != (Progress{Steps: 63, Pass: 1, Batch: 3, Reader: "ab"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, c := range map[string]struct {
		text string
		kind fault.Kind
	}{
		"nothing":           {"", fault.Corrupt},
		"half":              {good[:20], fault.Corrupt},
		"no end of line":    {good[:len(good)-1], fault.Corrupt},
		"more":              {good + good, fault.Corrupt},
		"a newer version":   {strings.Replace(good, ":1", ":5", 1), fault.Unsupported},
		"no version":        {`{"steps":63}`, fault.Unsupported},
		"a field more":      {strings.Replace(good, "}", `,"loss":1}`, 1), fault.Corrupt},
		"a field twice":     {strings.Replace(good, "}", `,"steps":64}`, 1), fault.Corrupt},
		"a field less":      {strings.Replace(good, `"pass":1,`, "", 1), fault.Corrupt},
		"another case":      {strings.Replace(good, "steps", "Steps", 1), fault.Corrupt},
		"a negative number": {strings.Replace(good, "63", "-63", 1), fault.Corrupt},
		"a negative pass":   {strings.Replace(good, `pass":1`, `pass":-1`, 1), fault.Corrupt},
		"no reader":         {strings.Replace(good, "ab", "", 1), fault.Corrupt},
		"too long":          {good + strings.Repeat(" ", progressLimit), fault.Corrupt},
	} {
		if p, err := decodeProgress([]byte(c.text)); !errors.Is(err, c.kind) || p != (Progress{}) {
			t.Errorf("%s: %+v, %v, want %v", name, p, err, c.kind)
		}
	}
}

// Whatever the bytes, a Progress that is read from them is written as they are.
func FuzzProgress(f *testing.F) {
	f.Add([]byte(`{"version":1,"steps":63,"pass":1,"batch":3,"reader":"ab"}` + "\n"))
	f.Add([]byte(`{"version":1,"steps":0,"pass":0,"batch":0,"reader":""}` + "\n"))
	f.Add([]byte(`{"version":1,"steps":18446744073709551615,"pass":2147483647,"batch":9223372036854775807,"reader":"\u2028<"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := decodeProgress(text)
		if err != nil {
			return
		}
		if again, err := encodeProgress(p); err != nil || string(again) != string(text) {
			t.Errorf("%q is written as %q, %v", text, again, err)
		}
	})
}

func TestReaderHashTellsHowDataIsRead(t *testing.T) {
	type reading struct {
		dataset, field              string
		width                       int64
		shuffle, seed, batch, times int
		ahead                       bool
	}
	hash := func(r reading) string {
		m := layers.NewModel()
		source := layers.OpenDataset(m, r.dataset, layers.Field(r.field, layers.Dims(r.width)), layers.Field("y", layers.Dims(1)))
		if r.shuffle > 0 {
			source = layers.Shuffle(source, r.shuffle, r.seed)
		}
		source = layers.Batch(source, r.batch)
		if r.ahead {
			source = layers.DoubleBuffer(source)
		}
		if r.times > 0 {
			source = layers.MultiPass(source, r.times)
		}
		batch := layers.Read(source)
		layers.SquareErrorCost(layers.FC(batch[0], 1), batch[1])
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		return ReaderHash(p)
	}
	base := reading{dataset: "train", field: "x", width: 13, shuffle: 500, seed: 1, batch: 20}
	for name, c := range map[string]struct {
		change func(*reading)
		same   bool
	}{
		"nothing":     {func(*reading) {}, true},
		"its names":   {func(r *reading) { r.field = "pixels" }, true},
		"how early":   {func(r *reading) { r.ahead = true }, true},
		"how often":   {func(r *reading) { r.times = 3 }, true},
		"the dataset": {func(r *reading) { r.dataset = "test" }, false},
		"the dims":    {func(r *reading) { r.width = 14 }, false},
		"the buffer":  {func(r *reading) { r.shuffle = 501 }, false},
		"the seed":    {func(r *reading) { r.seed = 2 }, false},
		"no shuffle":  {func(r *reading) { r.shuffle = 0 }, false},
		"the batch":   {func(r *reading) { r.batch = 21 }, false},
	} {
		r := base
		c.change(&r)
		if got := hash(r) == hash(base); got != c.same {
			t.Errorf("%s: same hash %t, want %t", name, got, c.same)
		}
	}
	if h := ReaderHash(program.New()); h != "" {
		t.Errorf("a program that reads nothing has the hash %q", h)
	}
}
