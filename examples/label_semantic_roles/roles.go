package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/tensor"
)

// A sentence is words, and what they are to one of its verbs.
type sentence struct {
	words []string
	verb  string   // its lemma
	at    int      // where the verb stands
	tags  []string // of each word: B- and a role where a role begins, I- and the role where it goes on, O elsewhere
	held  bool     // out of training
}

// A vocabulary gives texts their numbers, in the order in which they are met.
type vocabulary struct {
	texts []string
	ids   map[string]int64
}

func (v *vocabulary) add(text string) {
	if _, ok := v.ids[text]; !ok {
		if v.ids == nil {
			v.ids = map[string]int64{}
		}
		v.ids[text] = int64(len(v.texts))
		v.texts = append(v.texts, text)
	}
}

// Words that no sentence has: of texts without a number of their own, and those before and behind a sentence.
const (
	unknown = "<unk>"
	before  = "<s>"
	behind  = "</s>"
)

// A corpus is sentences with numbers for what they say. Texts that the sentences to train on have only once are unknown, so that the unknown is trained.
type corpus struct {
	sentences          []sentence
	words, verbs, tags vocabulary
}

func newCorpus(sentences []sentence) *corpus {
	c := &corpus{sentences: sentences}
	for _, text := range []string{unknown, before, behind} {
		c.words.add(text)
	}
	c.verbs.add(unknown)
	words, verbs := map[string]int{}, map[string]int{}
	meet := func(times map[string]int, v *vocabulary, text string) {
		if times[text]++; times[text] > 1 {
			v.add(text)
		}
	}
	for _, s := range sentences {
		for _, tag := range s.tags {
			if _, role, ok := strings.Cut(tag, "-"); ok {
				c.tags.add("B-" + role)
				c.tags.add("I-" + role)
			}
		}
		if s.held {
			continue
		}
		meet(verbs, &c.verbs, s.verb)
		for _, word := range s.words {
			meet(words, &c.words, word)
		}
	}
	c.tags.add("O")
	return c
}

// write writes the datasets train and test, and the vocabularies.
func (c *corpus) write(out string) error {
	held := func(i int) bool { return c.sentences[i].held }
	if err := page.Split(out, len(c.sentences), held, func(i int) ([]byte, error) { return c.record(c.sentences[i]) }); err != nil {
		return err
	}
	for name, v := range map[string]vocabulary{"words.txt": c.words, "verbs.txt": c.verbs, "tags.txt": c.tags} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(strings.Join(v.texts, "\n")+"\n"), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// record has the features of a sentence, in their order.
func (c *corpus) record(s sentence) ([]byte, error) {
	n := len(s.words)
	lists := make([][]int64, 0, len(features))
	words, mark, target := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, word := range s.words {
		words[i], target[i] = c.words.ids[word], c.tags.ids[s.tags[i]] // an unknown word is 0
	}
	lists = append(lists, words)
	for at := s.at - 2; at <= s.at+2; at++ {
		id := c.words.ids[before]
		switch {
		case at >= n:
			id = c.words.ids[behind]
		case at >= 0:
			id, mark[at] = words[at], 1
		}
		lists = append(lists, slices.Repeat([]int64{id}, n))
	}
	lists = append(lists, slices.Repeat([]int64{c.verbs.ids[s.verb]}, n), mark, target)
	values := make([]*tensor.Tensor, len(lists))
	for i, ids := range lists {
		var err error
		if values[i], err = tensor.FromSlice(ids, int64(n), 1); err != nil {
			return nil, err
		}
	}
	return dataset.AppendRecord(nil, values...), nil
}

// A row is a line of a file, in fields.
type row struct {
	line   int
	fields []string
}

// paragraphs returns the rows of a file, in groups between blank lines.
func paragraphs(path string) ([][]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all [][]row
	var rows []row
	lines, line := bufio.NewScanner(f), 0
	for lines.Scan() {
		line++
		if fields := strings.Fields(lines.Text()); len(fields) > 0 {
			rows = append(rows, row{line, fields})
		} else if len(rows) > 0 {
			all, rows = append(all, rows), nil
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", path, line+1, err)
	}
	if len(rows) > 0 {
		all = append(all, rows)
	}
	return all, nil
}

// readCoNLL reads a file of words and one of their roles, whose lines belong together.
func readCoNLL(words, props string) ([]sentence, error) {
	texts, err := paragraphs(words)
	if err != nil {
		return nil, err
	}
	roles, err := paragraphs(props)
	if err != nil {
		return nil, err
	}
	var all []sentence
	count := 0 // sentences with verbs
	for i := range min(len(texts), len(roles)) {
		if t, r := texts[i], roles[i]; len(t) != len(r) {
			return nil, fmt.Errorf("%s:%d: a sentence of %d words, want %d as from %s:%d on", props, r[0].line, len(r), len(t), words, t[0].line)
		}
		text := make([]string, len(texts[i]))
		for k, row := range texts[i] {
			if len(row.fields) != 1 {
				return nil, fmt.Errorf("%s:%d: %d fields, want one word", words, row.line, len(row.fields))
			}
			text[k] = strings.ToLower(row.fields[0])
		}
		of, err := rolesOf(props, roles[i], text)
		if err != nil {
			return nil, err
		}
		if len(of) == 0 {
			continue
		}
		count++
		for _, s := range of {
			s.held = count%heldOut == 0
			all = append(all, s)
		}
	}
	switch {
	case len(texts) > len(roles):
		return nil, fmt.Errorf("%s:%d: a sentence without roles in %s, which has %d sentences", words, texts[len(roles)][0].line, props, len(roles))
	case len(roles) > len(texts):
		return nil, fmt.Errorf("%s:%d: roles of a sentence that is not in %s, which has %d sentences", props, roles[len(texts)][0].line, words, len(texts))
	case count < heldOut:
		return nil, fmt.Errorf("%s: %d sentences with verbs, want at least %d, of which one is held out", props, count, heldOut)
	}
	return all, nil
}

// heldOut is which of so many sentences is held out: the last.
const heldOut = 10

// rolesOf returns a sentence for each verb in the first column of rows.
func rolesOf(path string, rows []row, text []string) ([]sentence, error) {
	var all []sentence
	for i, row := range rows {
		if len(row.fields) != len(rows[0].fields) {
			return nil, fmt.Errorf("%s:%d: %d columns, want %d as in line %d, where the sentence begins", path, row.line, len(row.fields), len(rows[0].fields), rows[0].line)
		}
		if lemma := row.fields[0]; lemma != "-" {
			all = append(all, sentence{words: text, verb: strings.ToLower(lemma), at: i})
		}
	}
	if columns := len(rows[0].fields) - 1; columns != len(all) {
		return nil, fmt.Errorf("%s:%d: %d columns of roles for a sentence of %d verbs, want one for each", path, rows[0].line, columns, len(all))
	}
	for i := range all {
		var err error
		if all[i].tags, err = tagsOf(path, rows, i+1); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// tagsOf turns a column of brackets, such as (A0* where a role begins, * and *) where it ends, into tags. Roles of a verb do not lie within others.
func tagsOf(path string, rows []row, column int) ([]string, error) {
	tags := make([]string, len(rows))
	role, from := "", 0 // the one that is open, and the line where it began
	for i, row := range rows {
		cell := row.fields[column]
		bad := func(want string) error {
			return fmt.Errorf("%s:%d: column %d is %q, want %s", path, row.line, column+1, cell, want)
		}
		begin, end, ok := strings.Cut(cell, "*")
		switch {
		case !ok || begin != "" && (begin[0] != '(' || len(begin) == 1 || strings.ContainsAny(begin[1:], "()")) || end != "" && end != ")":
			return nil, bad("(ROLE* or * or *) or (ROLE*)")
		case begin != "" && role != "":
			return nil, bad(fmt.Sprintf("* or *), as %s is open since line %d", role, from))
		case begin == "" && end != "" && role == "":
			return nil, bad("no ), as no role is open")
		case begin != "":
			role, from, tags[i] = begin[1:], row.line, "B-"+begin[1:]
		case role != "":
			tags[i] = "I-" + role
		default:
			tags[i] = "O"
		}
		if end != "" {
			role = ""
		}
	}
	if role != "" {
		return nil, fmt.Errorf("%s:%d: (%s* is not closed where the sentence ends", path, from, role)
	}
	return tags, nil
}

// madeUp makes up sentences of one or two clauses. Whose subject a verb has depends on the verb and on "was" before it: who acts is A0, and who is acted on
// is A1. Places and times are AM-LOC and AM-TMP. The words of the other clause have no role.
func madeUp(n int) []sentence {
	random := rand.New(rand.NewPCG(1, 6))
	var all []sentence
	for i := range n {
		clauses := []sentence{clause(random)}
		if random.IntN(2) == 0 {
			clauses = append(clauses, clause(random))
		}
		for k, own := range clauses {
			s := sentence{verb: own.verb, held: i%heldOut == heldOut-1}
			for other, c := range clauses {
				if other > 0 {
					s.words, s.tags = append(s.words, "and"), append(s.tags, "O")
				}
				tags := slices.Repeat([]string{"O"}, len(c.words))
				if other == k {
					s.at, tags = len(s.words)+c.at, c.tags
				}
				s.words, s.tags = append(s.words, c.words...), append(s.tags, tags...)
			}
			all = append(all, s)
		}
	}
	return all
}

func clause(random *rand.Rand) sentence {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	phrase := func() []string {
		words := []string{pick("the", "a", "this")}
		if random.IntN(3) == 0 {
			words = append(words, pick("old", "red", "small", "quiet"))
		}
		return append(words, pick("dog", "king", "child", "girl", "tree", "house", "letter", "horse", "ship", "doctor"))
	}
	var s sentence
	add := func(role string, words ...string) {
		for i, word := range words {
			tag := "O"
			if role != "" && i == 0 {
				tag = "B-" + role
			} else if role != "" {
				tag = "I-" + role
			}
			s.words, s.tags = append(s.words, word), append(s.tags, tag)
		}
	}
	verb := func(word string) {
		s.verb, s.at = word, len(s.words)
		add("V", word)
	}
	sometimes := func(role string, words ...string) {
		if random.IntN(3) == 0 {
			add(role, words...)
		}
	}
	sometimes("AM-TMP", pick("yesterday", "today", "often"))
	switch random.IntN(3) {
	case 0: // something happens to the subject
		add("A1", phrase()...)
		verb(pick("fell", "slept", "vanished", "grew"))
	case 1:
		add("A0", phrase()...)
		verb(pick("saw", "found", "moved", "followed"))
		add("A1", phrase()...)
	case 2:
		add("A1", phrase()...)
		add("", "was")
		verb(pick("saw", "found", "moved", "followed"))
		add("A0", append([]string{"by"}, phrase()...)...)
	}
	sometimes("AM-LOC", append([]string{pick("in", "near")}, phrase()...)...)
	sometimes("AM-TMP", "on", pick("monday", "friday", "sunday"))
	return s
}
