package cost

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/resources"
)

// ListOptions say of a list of prices what it does not say itself.
type ListOptions struct {
	Name   string // of its file, for the words of the source
	Dated  string // YYYY-MM-DD; rows that carry a date of their own keep it
	Source string // in words; "": made of Name
	Cloud  string // for layouts that do not name it, such as "aws"
	// Region whose prices are taken; "": us-east-1 of AWS, eastus of Azure, us-central1 of GCP where a type is offered there, else the
	// region in the middle of its prices.
	Region string
	Today  time.Time // dates after it are refused; zero: none is
}

// List is what was read from a list of prices.
type List struct {
	Layout string
	Offers []Offer // one of each name, by name
	Rows   int     // that the file has
	// Elsewhere is the number of sound rows of other regions than the one taken.
	Elsewhere int
	Rejected  []Rejected // refused rows, by line
	Flagged   []Rejected // taken, but unusual or in part, by line
}

// Rejected is a row of an imported list that was refused, or taken with a doubt, and why.
type Rejected struct {
	Line int
	What string
}

// ErrUndated says that neither a list nor its reader says of which day its prices are.
var ErrUndated = errors.New("it does not say of which day its prices are")

// absurd and unusual are the factors by which a price may differ from what is known.
const (
	absurd  = 20
	unusual = 5
)

// maxList bounds what is read of a list, unpacked, bytes: several times the largest known.
const maxList = 256 << 20

// ReadList reads a list of prices, plain or gzip, in one of the layouts of [Layouts], which it tells by the columns. Rows are checked one
// by one; shapes that the list leaves out are those of known, as are the prices that absurd ones are told by; with nil, prices
// are not compared. Rows of one type in several zones and regions become one offer: on demand the price of one region, see
// ListOptions; on spot capacity the median over that region's zones. The error is about the list as a whole; it wraps ErrUndated when a date is missing.
func ReadList(r io.Reader, known *Catalogue, o ListOptions) (List, error) {
	if o.Dated != "" {
		if what := wrongDate(o.Dated, o.Today); what != "" {
			return List{}, errors.New(what)
		}
	}
	text, err := unpacked(r)
	if err != nil {
		return List{}, err
	}
	heading, err := preamble(text)
	if err != nil {
		return List{}, err
	}
	o.Dated = cmp.Or(o.Dated, heading)
	reader := csv.NewReader(text)
	reader.FieldsPerRecord, reader.TrimLeadingSpace = -1, true
	reader.Comment = '#'
	header, err := reader.Read()
	if err != nil {
		return List{}, errors.New("no line with the names of the columns")
	}
	columns := map[string]int{}
	for i, name := range header {
		columns[columnKey(name)] = i
	}
	l := layoutOf(columns)
	if l == nil {
		return List{}, fmt.Errorf("the columns %s are of no known layout; known are %s", firstFew(header), Layouts())
	}
	t := &table{list: List{Layout: l.name}, layout: l, columns: columns, options: o, known: newReference(known)}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var broken *csv.ParseError
		switch {
		case errors.As(err, &broken):
			t.list.Rows++
			t.reject(broken.StartLine, broken.Err.Error())
		case err != nil:
			return List{}, err
		default:
			line, _ := reader.FieldPos(0)
			if err := t.take(line, record); err != nil {
				return List{}, err
			}
		}
	}
	if l.rename != nil {
		l.rename(t.rows)
	}
	t.list.Offers, t.list.Elsewhere, err = fold(t.rows, o.Region)
	return t.list, err
}

// table is a list that is being read.
type table struct {
	list    List
	layout  *layout
	columns map[string]int
	options ListOptions
	known   reference
	rows    []Offer
}

func (t *table) reject(line int, what string) {
	t.list.Rejected = append(t.list.Rejected, Rejected{line, strings.ReplaceAll(what, "\n", ", ")})
}

// take checks one row and keeps it, or what is wrong with it; the error is about the list.
func (t *table) take(line int, record []string) error {
	t.list.Rows++
	f := &fields{columns: t.columns, record: record, options: t.options}
	offer, err := t.layout.row(f)
	err = errors.Join(append(f.problems, err)...)
	if err == nil {
		offer, err = t.known.complete(offer)
	}
	if err == nil && offer.Dated == "" {
		return ErrUndated
	}
	if err == nil {
		err = t.known.check(offer, t.options.Today)
	}
	if err != nil {
		t.reject(line, fmt.Sprintf("%s:%s: %v", offer.Cloud, offer.Type, err))
		return nil
	}
	if doubt := t.known.doubt(&offer); doubt != "" {
		t.list.Flagged = append(t.list.Flagged, Rejected{line, offer.Name() + ": " + doubt})
	}
	t.rows = append(t.rows, offer)
	return nil
}

// unpacked is the text of a list, without gzip and without a byte-order mark.
func unpacked(r io.Reader) (*bufio.Reader, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReader(z)
	}
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		b.Discard(3)
	}
	return bufio.NewReaderSize(&bounded{b, maxList}, 1<<16), nil
}

// bounded fails after so many bytes, instead of ending as if the file were over.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("more than %d MiB", maxList>>20)
	}
	return n, err
}

var headingDate = regexp.MustCompile(`(?i)\b(?:dated|date|generated|as of)\b[^0-9\n]{0,20}([0-9]{4}-[0-9]{2}-[0-9]{2})`)

// preamble is the date in the lines of comment at the head of a list; they are left to be read again.
func preamble(b *bufio.Reader) (string, error) {
	head, err := b.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return "", err
	}
	for line := range strings.Lines(string(head)) {
		if !strings.HasPrefix(line, "#") {
			return "", nil
		}
		if m := headingDate.FindStringSubmatch(line); m != nil {
			return m[1], nil
		}
	}
	return "", nil
}

func columnKey(name string) string {
	return strings.Map(func(r rune) rune {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

func firstFew(header []string) string {
	const most = 6
	names := strconv.Quote(strings.Join(header[:min(most, len(header))], ","))
	if len(header) > most {
		names += fmt.Sprintf(" and %d more", len(header)-most)
	}
	return names
}

func wrongDate(date string, today time.Time) string {
	day, err := time.Parse(time.DateOnly, date)
	switch {
	case err != nil:
		return fmt.Sprintf("date %q is not of the form YYYY-MM-DD", date)
	case !today.IsZero() && day.After(today.Add(24*time.Hour)):
		return fmt.Sprintf("date %s is in the future", date)
	}
	return ""
}

// fold makes one offer of all rows of one type, and counts the rows of regions that are not taken.
func fold(rows []Offer, region string) (list []Offer, elsewhere int, err error) {
	groups := map[string][]Offer{}
	regions := map[string]bool{}
	for _, r := range rows {
		key := offerKey(r.Cloud, r.Type)
		groups[key] = append(groups[key], r)
		regions[strings.ToLower(r.Region)] = true
	}
	if region != "" && len(rows) > 0 && !regions[strings.ToLower(region)] {
		return nil, 0, fmt.Errorf("no row is of region %q; regions are %s", region, fewRegions(regions))
	}
	for _, group := range groups {
		taken := inRegion(group, cmp.Or(region, regionOf(group)))
		elsewhere += len(group) - len(taken)
		if len(taken) > 0 {
			list = append(list, foldZones(taken))
		}
	}
	slices.SortFunc(list, func(a, b Offer) int { return strings.Compare(a.Name(), b.Name()) })
	return list, elsewhere, nil
}

func fewRegions(regions map[string]bool) string {
	var names []string
	for r := range regions {
		names = append(names, cmp.Or(r, "(none named)"))
	}
	slices.Sort(names)
	if len(names) > 8 {
		names = append(names[:8], fmt.Sprintf("%d more", len(names)-8))
	}
	return strings.Join(names, ", ")
}

var referenceRegions = map[string]string{"aws": "us-east-1", "azure": "eastus", "gcp": "us-central1"}

// regionOf is the region whose prices stand for a type.
func regionOf(group []Offer) string {
	reference := referenceRegions[group[0].Cloud]
	if len(inRegion(group, reference)) > 0 {
		return reference
	}
	byPrice := slices.SortedStableFunc(slices.Values(group), func(a, b Offer) int { return cmp.Compare(a.OnDemand, b.OnDemand) })
	return byPrice[(len(byPrice)-1)/2].Region
}

func inRegion(group []Offer, region string) []Offer {
	var list []Offer
	for _, r := range group {
		if strings.EqualFold(r.Region, region) {
			list = append(list, r)
		}
	}
	return list
}

// foldZones makes one offer of the rows of one type in one region: of their latest day, the price on demand in the middle and the
// median of the spot prices.
func foldZones(rows []Offer) Offer {
	latest := slices.MaxFunc(rows, func(a, b Offer) int { return strings.Compare(a.Dated, b.Dated) }).Dated
	rows = slices.DeleteFunc(slices.Clone(rows), func(o Offer) bool { return o.Dated != latest })
	slices.SortStableFunc(rows, func(a, b Offer) int { return cmp.Compare(a.OnDemand, b.OnDemand) })
	o := rows[len(rows)/2]
	var spots []USD
	for _, r := range rows {
		if r.Spot > 0 && r.Spot < o.OnDemand {
			spots = append(spots, r.Spot)
			o.SpotDated, o.SpotSource = r.SpotDated, r.SpotSource
		}
	}
	slices.Sort(spots)
	switch n := len(spots); {
	case n == 0:
		return o.withoutSpot()
	case len(rows) > 1:
		o.Spot, o.SpotLow, o.SpotHigh, o.SpotZones = (spots[(n-1)/2]+spots[n/2])/2, 0, 0, 0
		if spots[0] < spots[n-1] { // else the list repeats itself
			o.SpotLow, o.SpotHigh, o.SpotZones = spots[0], spots[n-1], n
		}
	}
	return o
}

func (o Offer) withoutSpot() Offer {
	o.Spot, o.SpotLow, o.SpotHigh, o.SpotZones, o.SpotDated, o.SpotSource = 0, 0, 0, 0, "", ""
	return o
}

// fields are the cells of one row by the name of their column; a column that is absent is empty.
type fields struct {
	columns  map[string]int
	record   []string
	options  ListOptions
	problems []error
}

func (f *fields) text(column string) string {
	if i, ok := f.columns[column]; ok && i < len(f.record) {
		return strings.TrimSpace(f.record[i])
	}
	return ""
}

// gib is an amount of memory to six digits, as the table in the binary has it: 22888 MiB and 22.3516 GiB are the same.
func gib(v float64) resources.GiB {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return resources.GiB(f)
}

// number is 0 for an empty cell.
func (f *fields) number(column string) float64 {
	text := f.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		f.problems = append(f.problems, fmt.Errorf("%s %q is not a number", column, text))
		return 0
	}
	return v
}

func (f *fields) count(column string) int {
	v := f.number(column)
	if v != math.Trunc(v) || v < 0 || v > 1e6 {
		f.problems = append(f.problems, fmt.Errorf("%s %q is not a count", column, f.text(column)))
		return 0
	}
	return int(v)
}

func (f *fields) dated() string { return cmp.Or(f.text("dated"), f.text("date"), f.options.Dated) }

func (f *fields) source() string {
	return cmp.Or(f.text("source"), f.options.Source, "price list "+f.options.Name)
}
