package convert

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// shown is a RecordWriter that writes each sample as text.
type shown struct {
	lines []string
	wrong error // with what was written
}

func (s *shown) Write(record []byte) error {
	tensors, err := dataset.DecodeRecord(record)
	if err != nil {
		s.wrong = err
		return err
	}
	var parts []string
	for _, t := range tensors {
		if err := tensor.CheckLoD(t); err != nil {
			s.wrong = err
			return err
		}
		elements := any(t.Int64s())
		switch t.DType() {
		case tensor.Float32:
			elements = t.Float32s()
		case tensor.Bool:
			elements = t.Bools()
		}
		part := t.String() + fmt.Sprint(elements)
		if len(t.LoD()) > 0 {
			part += fmt.Sprint(t.LoD())
		}
		parts = append(parts, part)
	}
	s.lines = append(s.lines, strings.Join(parts, " "))
	return nil
}

func vocabulary(t testing.TB, words string) *Vocabulary {
	t.Helper()
	v, err := ReadVocabulary(background, strings.NewReader(strings.ReplaceAll(words, " ", "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestText(t *testing.T) {
	words := vocabulary(t, "the good bad <unk> <pad>")
	for name, c := range map[string]struct {
		options TextOptions
		text    string
		want    []string
	}{
		"labelled": {TextOptions{}, "1\tthe good  film\r\n0\t\n", []string{"int64[3 1][0 1 3][[0 3]] int64[1][1]", "int64[0 1][][[0 0]] int64[1][0]"}},
		"lower":    {TextOptions{Lower: true}, "0\tThe BAD", []string{"int64[2 1][0 2][[0 2]] int64[1][0]"}},
		"at most":  {TextOptions{Most: 2}, "0\tthe bad film", []string{"int64[2 1][0 2][[0 2]] int64[1][0]"}},
		"next": {TextOptions{Next: true}, "the good film\nthe\n\n", []string{
			"int64[2 1][0 1][[0 2]] int64[2 1][1 3][[0 2]]"}},
		"of one length": {TextOptions{Length: 3, Pad: "<pad>"}, "0\tbad\n1\tthe good good film", []string{"int64[3 1][2 4 4] int64[1][0]", "int64[3 1][0 1 1] int64[1][1]"}},
	} {
		c.options.Vocabulary = words
		var got shown
		n, err := Text(background, strings.NewReader(c.text), &got, c.options)
		if err != nil || n != len(c.want) || !slices.Equal(got.lines, c.want) {
			t.Errorf("%s: %d samples, %q, %v, want %q", name, n, got.lines, err, c.want)
		}
	}
}

func TestTextFaults(t *testing.T) {
	for name, c := range map[string]struct {
		options TextOptions
		text    string
		kind    fault.Kind
		says    string
	}{
		"no vocabulary": {TextOptions{}, "", fault.InvalidArgument, "a vocabulary"},
		"no pad":        {TextOptions{Vocabulary: vocabulary(t, "a"), Length: 3, Pad: "<pad>"}, "", fault.NotFound, "<pad>"},
		"no tab":        {TextOptions{Vocabulary: vocabulary(t, "a")}, "1\ta\na", fault.Corrupt, "line 2"},
		"no label":      {TextOptions{Vocabulary: vocabulary(t, "a")}, "a\ta", fault.Corrupt, `line 1: corrupt data: got "a", want an integer`},
		"unknown word":  {TextOptions{Vocabulary: vocabulary(t, "a")}, "1\ta b", fault.NotFound, "<unk>"},
		"a long line":   {TextOptions{Vocabulary: vocabulary(t, "a")}, "1\ta\n" + strings.Repeat("a ", maxLine), fault.TooLarge, "line 2"},
	} {
		if _, err := Text(background, strings.NewReader(c.text), &shown{}, c.options); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCountWords(t *testing.T) {
	text := "1\tb a b\n0\tC c <unk> d\n"
	for _, c := range []struct {
		lower       bool
		least, most int
		want        string
	}{
		{false, 0, 0, "b C a c d <unk>"}, {true, 0, 0, "b c a d <unk>"}, {true, 2, 0, "b c <unk>"}, {false, 0, 3, "b C <unk>"},
	} {
		v, err := CountWords(background, strings.NewReader(text), 1, c.lower, c.least, c.most)
		if err != nil || strings.Join(v.Words(), " ") != c.want {
			t.Errorf("%+v: %v, %v", c, v, err)
		}
	}
}

func TestVocabularyFaults(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		says string
	}{
		"twice": {"a\nb\na", `line 3: corrupt data: got "a" again`}, "two words": {"a\nb c", "line 2"}, "an empty line": {"a\n\nb", "line 2"},
		"a long word": {strings.Repeat("a", maxWord+1), "line 1"},
	} {
		if _, err := ReadVocabulary(background, strings.NewReader(c.text)); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLibSVM(t *testing.T) {
	text := "+1 3:0.5 7:-2 # first\n\n-1\n2 1:1e3\n"
	var classes, numbers shown
	if n, err := LibSVM(background, strings.NewReader(text), &classes, LibSVMOptions{LabelDType: tensor.Int64, Features: 8}); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if want := []string{"int64[2 1][3 7][[0 2]] float32[2 1][0.5 -2][[0 2]] int64[1][1]", "int64[0 1][][[0 0]] float32[0 1][][[0 0]] int64[1][0]",
		"int64[1 1][1][[0 1]] float32[1 1][1000][[0 1]] int64[1][2]"}; !slices.Equal(classes.lines, want) {
		t.Errorf("classes: %q", classes.lines)
	}
	if _, err := LibSVM(background, strings.NewReader(text), &numbers, LibSVMOptions{LabelDType: tensor.Float32}); err != nil || !strings.HasSuffix(numbers.lines[1], "float32[1][-1]") {
		t.Errorf("numbers: %q, %v", numbers.lines, err)
	}
	for text, says := range map[string]string{"1 8:1": "below 8", "1 3": "NUMBER:VALUE", "1 -1:2": "NUMBER:VALUE", "1 2:x": `"x"`, "x 2:1": `"x"`, "1.5 2:1": "float32", "1 2:inf": "finite", "1 3:1 2:1": "behind the number 3", "1 3:1 3:1": "rise"} {
		_, err := LibSVM(background, strings.NewReader("1 2:1\n"+text), &shown{}, LibSVMOptions{LabelDType: tensor.Int64, Features: 8})
		if err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A float32 has no 2^24 + 1, and a float64 no 2^53 + 1: classes go through neither.
func TestClassesOfLibSVMAreExact(t *testing.T) {
	var got shown
	if _, err := LibSVM(background, strings.NewReader("16777217 1:1\n9007199254740993.0 1:1\n-1e0 1:1\n"), &got, LibSVMOptions{LabelDType: tensor.Int64}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"int64[1][16777217]", "int64[1][9007199254740993]", "int64[1][0]"} {
		if !strings.HasSuffix(got.lines[i], want) {
			t.Errorf("got %s, want %s", got.lines[i], want)
		}
	}
	for _, text := range []string{"9223372036854775808", "1e30", "16777216.5"} {
		if _, err := LibSVM(background, strings.NewReader(text+" 1:1"), &shown{}, LibSVMOptions{LabelDType: tensor.Int64}); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func fields(t testing.TB, texts ...string) (list []JSONField) {
	t.Helper()
	for _, text := range texts {
		f, err := ParseJSONField(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}

func TestJSONLines(t *testing.T) {
	options := JSONLinesOptions{Vocabulary: vocabulary(t, "a b <unk>"), Lower: true,
		Fields: fields(t, "text:words", "clicks:int64[1]/1", "points:float32[2]/2", "label:int64", "pixels:float32[2,2]", "seen:bool[2]", "word:int64")}
	line := `{"text": "A c", "clicks": [5, [6]], "points": [[[1, 2], [3, 4]], [], [[5, 6]]], "label": 3, "pixels": [[1, 2], [3, 4.5]], "seen": [true, false], "word": "B", "more": null}`
	var got shown
	if n, err := JSONLines(background, strings.NewReader(line+"\n\n"), &got, options); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	want := "int64[2 1][0 2][[0 2]] int64[2 1][5 6][[0 2]] float32[3 2][1 2 3 4 5 6][[0 3] [0 2 2 3]] int64[1][3] float32[2 2][1 2 3 4.5] bool[2][true false] int64[1][1]"
	if got.lines[0] != want {
		t.Errorf("got\n%s\nwant\n%s", got.lines[0], want)
	}
}

// Texts become keys by XXH64, whose hash of "abc" is 0x44bc2cf5ad770999. Whole numbers are keys as they are, also as texts.
func TestKeysOfTexts(t *testing.T) {
	options := JSONLinesOptions{Fields: fields(t, "user:key", "tags:key[1]/1", "pair:key[2]")}
	var got shown
	if _, err := JSONLines(background, strings.NewReader(`{"user": "abc", "tags": ["", "abc", -5], "pair": ["abc", "7"]}`), &got, options); err != nil {
		t.Fatal(err)
	}
	abc, none := int64(0x44bc2cf5ad770999), int64(-1205034819632174695) // 0xef46db3751d8e999
	if want := fmt.Sprintf("int64[1][%d] int64[3 1][%d %d -5][[0 3]] int64[2][%d 7]", abc, none, abc, abc); got.lines[0] != want {
		t.Errorf("got\n%s\nwant\n%s", got.lines[0], want)
	}
}

// Columns of a table and words of lines become the same keys, without a vocabulary. A whole number in a column is its own key; a line is filled with -1, which is no key.
func TestKeysOfColumnsAndWords(t *testing.T) {
	const abc = int64(0x44bc2cf5ad770999)
	for name, c := range map[string]struct {
		convert func(w *shown) (int, error)
		want    []string
	}{
		"columns": {func(w *shown) (int, error) {
			return CSV(background, strings.NewReader("user,age,tag,y\n abc,3, 7,1\n-7,4,abc,0\n"), w, CSVOptions{Header: true, Keys: []string{"tag", "user"}, LabelDType: tensor.Int64})
		}, []string{fmt.Sprintf("float32[1][3] int64[1][7] int64[1][%d] int64[1][1]", abc), fmt.Sprintf("float32[1][4] int64[1][%d] int64[1][-7] int64[1][0]", abc)}},
		"columns alone": {func(w *shown) (int, error) {
			return CSV(background, strings.NewReader("abc,0.5\n"), w, CSVOptions{Keys: []string{"0"}, LabelDType: tensor.Float32})
		}, []string{fmt.Sprintf("int64[1][%d] float32[1][0.5]", abc)}},
		"words": {func(w *shown) (int, error) {
			return Text(background, strings.NewReader("1\tABC 7\n0\t"), w, TextOptions{Keys: true, Lower: true})
		}, []string{fmt.Sprintf("int64[2 1][%d %d][[0 2]] int64[1][1]", abc, 7), "int64[0 1][][[0 0]] int64[1][0]"}},
		"words of one length": {func(w *shown) (int, error) {
			return Text(background, strings.NewReader("1\tabc"), w, TextOptions{Keys: true, Length: 3, Pad: "<pad>"})
		}, []string{fmt.Sprintf("int64[3 1][%d -1 -1] int64[1][1]", abc)}},
	} {
		var got shown
		if n, err := c.convert(&got); err != nil || n != len(c.want) || !slices.Equal(got.lines, c.want) {
			t.Errorf("%s: %d samples, %q, %v, want %q", name, n, got.lines, err, c.want)
		}
	}
	if _, err := CSV(background, strings.NewReader("a,y\n"), &shown{}, CSVOptions{Header: true, Keys: []string{"b"}, LabelDType: tensor.Int64}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a column that is not there: %v", err)
	}
	if _, err := Text(background, strings.NewReader(""), &shown{}, TextOptions{Keys: true, Vocabulary: vocabulary(t, "a")}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("keys and a vocabulary: %v", err)
	}
}

func TestJSONLinesFaults(t *testing.T) {
	for line, c := range map[string]struct {
		field, says string
	}{
		`{"x": [1, 2`:          {"x:int64", "ends within its JSON object"},
		`[1]`:                  {"x:int64", "a line with an array"},
		`null`:                 {"x:int64", "no JSON object"},
		`{"x": 1} {"x": 2}`:    {"x:int64", "no JSON object"},
		`{"y": 1}`:             {"x:int64", `variable "x": not found`},
		`{"x": 1.5}`:           {"x:int64", "got 1.5, want a whole number of 64 bits"},
		`{"x": 3000000000}`:    {"x:int32", "a whole number of 32 bits"},
		`{"x": "1"}`:           {"x:float32", `got "1", want a number`},
		`{"x": 1e999}`:         {"x:float64", "1e999"},
		`{"x": [1, 2]}`:        {"x:float32[3]", "got 2 numbers in a row, want 3"},
		`{"x": [[1, 2], [1]]}`: {"x:float32[2]/1", "got 1 numbers in a row, want 2"},
		`{"x": 4}`:             {"x:int64[1]/1", "an array, of LoD level 1 of 1"},
		`{"x": [4]}`:           {"x:int64[1]/2", "an array, of LoD level 2 of 2"},
		`{"x": 0}`:             {"x:bool", "true or false"},
		`{"x": 1.5} `:          {"x:key", "a whole number of 64 bits"},
		`{"x": "-1"}`:          {"x:key", "which is no key"},
		`{"x": true}`:          {"x:key", "a whole number of 64 bits"},
		"{\"x\": \"a\xff\"}":   {"x:key", "no text in UTF-8"},
	} {
		_, err := JSONLines(background, strings.NewReader("\n"+line), &shown{}, JSONLinesOptions{Fields: fields(t, c.field)})
		if err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := JSONLines(background, strings.NewReader(""), &shown{}, JSONLinesOptions{Fields: fields(t, "x:words")}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("words without a vocabulary: %v", err)
	}
	for _, text := range []string{"", "x", "x:int8", "x:int64[", "x:int64[0]", "x:int64[1]/9", ":words", "x:float32[1048577]", "x:float32[99999999999999999999]"} {
		if _, err := ParseJSONField(text); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("field %q: %v", text, err)
		}
	}
}

// FuzzLines reads any bytes in all formats of lines: what is written can be read, and nothing panics.
func FuzzLines(f *testing.F) {
	f.Add([]byte("1\ta b\n"))
	f.Add([]byte("1 2:0.5 # c\n"))
	f.Add([]byte(`{"x": [[1], []], "y": "a"}`))
	f.Add([]byte("a\nb\n<unk>\n"))
	words, err := NewVocabulary([]string{"a", "b", UnknownWord})
	if err != nil {
		f.Fatal(err)
	}
	list := fields(f, "x:int64[1]/2", "y:words")
	f.Fuzz(func(t *testing.T, data []byte) {
		ReadVocabulary(background, bytes.NewReader(data))
		w := shown{}
		Text(background, bytes.NewReader(data), &w, TextOptions{Vocabulary: words})
		LibSVM(background, bytes.NewReader(data), &w, LibSVMOptions{LabelDType: tensor.Int64})
		JSONLines(background, bytes.NewReader(data), &w, JSONLinesOptions{Fields: list, Vocabulary: words})
		if w.wrong != nil {
			t.Fatal(w.wrong)
		}
	})
}

// Classes 0 and -1 would both be 0: the labels of one file are told apart, or refused.
func TestLabelsThatWouldBeOneClass(t *testing.T) {
	for text, says := range map[string][]string{"0 1:1\n1 1:1\n-1 1:1\n": {"line 3", "label -1, and 0 in line 1"}, "-1 1:1\n1 1:1\n0 1:1\n": {"line 3", "label 0, and -1 in line 1"}} {
		_, err := LibSVM(background, strings.NewReader(text), &shown{}, LibSVMOptions{LabelDType: tensor.Int64})
		if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), says[0]) || !strings.Contains(err.Error(), says[1]) {
			t.Errorf("%q: %v", text, err)
		}
		if n, err := LibSVM(background, strings.NewReader(text), &shown{}, LibSVMOptions{LabelDType: tensor.Float32}); err != nil || n != 3 {
			t.Errorf("%q as numbers: %d, %v", text, n, err)
		}
	}
	if _, err := Text(background, strings.NewReader("0\ta\n-1\ta\n"), &shown{}, TextOptions{Keys: true}); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a text with a label below 0: %v", err)
	}
}

// A byte order mark is no part of a label, a word or an object.
func TestByteOrderMarkOfLines(t *testing.T) {
	var text, svm, json, table shown
	_, first := Text(background, strings.NewReader("\ufeff1\ta\n"), &text, TextOptions{Vocabulary: vocabulary(t, "a")})
	_, second := LibSVM(background, strings.NewReader("\ufeff1 2:3\n"), &svm, LibSVMOptions{LabelDType: tensor.Int64})
	_, third := JSONLines(background, strings.NewReader("\ufeff{\"a\": 4}\n"), &json, JSONLinesOptions{Fields: fields(t, "a:int64")})
	_, fourth := CSV(background, strings.NewReader("\ufeff\"a\",b\n5,6\n"), &table, CSVOptions{Header: true, LabelDType: tensor.Int64, Features: []string{"a"}})
	if err := errors.Join(first, second, third, fourth); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		got  shown
		want string
	}{{text, "int64[1 1][0][[0 1]] int64[1][1]"}, {svm, "int64[1 1][2][[0 1]] float32[1 1][3][[0 1]] int64[1][1]"}, {json, "int64[1][4]"}, {table, "float32[1][5] int64[1][6]"}} {
		if !slices.Equal(c.got.lines, []string{c.want}) {
			t.Errorf("got %q, want %q", c.got.lines, c.want)
		}
	}
	v, err := ReadVocabulary(background, strings.NewReader("\ufeffa\n"))
	if err != nil || !slices.Equal(v.Words(), []string{"a"}) {
		t.Error(v, err)
	}
}
