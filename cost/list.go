package cost

import (
	"bufio"
	"bytes"
	"cmp"
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

	"trainopt/internal/regular"
	"trainopt/resources"
)

// ListOptions supplements the information of a price list.
type ListOptions struct {
	Name   string // name of its file, for Source
	Dated  string // YYYY-MM-DD; does not override dates of rows
	Source string // free text; "": derived from Name
	Cloud  string // for layouts without a cloud column, such as "aws"
	// Region is the region whose prices are used; "": us-east-1 of AWS, eastus of Azure and us-central1 of GCP where
	// a type is offered there, otherwise the region with the median price.
	Region string
	Today  time.Time // later dates are rejected; zero: no check
}

// List is the content of a price list.
type List struct {
	Layout string
	Offers []Offer // one per name, by name
	Rows   int     // rows of the file
	// OtherRegionRows is the number of valid rows of unused regions.
	OtherRegionRows int
	Rejected        []Rejected // rejected rows, by line
	Flagged         []Rejected // accepted with a reservation, by line
}

// Rejected is a row of an imported list that was rejected or flagged, with the reason.
type Rejected struct {
	Line int
	What string
}

// errUndated reports prices without a date, neither in the list nor in the options.
var errUndated = errors.New("the list contains no date of its prices")

// absurd and unusual are the factors by which a price may differ from known prices before it is rejected or flagged.
const (
	absurd  = 20
	unusual = 5
)

// maxList bounds the uncompressed size of a list in bytes: several times the largest known one.
const maxList = 256 << 20

// ReadList reads a list of prices, plain or gzip-compressed, in one of the layouts of [Layouts], which it identifies
// by the columns. Rows are validated individually. known supplies machine shapes missing from the list and the prices
// against which absurd ones are detected; with nil, prices are not compared. Rows of one type in several zones and
// regions are merged into one offer: the on-demand price of one region, see ListOptions, and the median spot price
// over the zones of that region. The error concerns the list as a whole; it wraps errUndated if a date is missing.
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
	t.list.Offers, t.list.OtherRegionRows, err = fold(t.rows, o.Region)
	return t.list, err
}

// table is the state of reading one list.
type table struct {
	list    List
	layout  *layout
	columns map[string]int
	options ListOptions
	known   reference
	rows    []Offer
}

// reject records a rejected row.
func (t *table) reject(line int, what string) {
	t.list.Rejected = append(t.list.Rejected, Rejected{line, strings.ReplaceAll(what, "\n", ", ")})
}

// take validates one row and stores it or the reason for its rejection; the error concerns the whole list.
func (t *table) take(line int, record []string) error {
	t.list.Rows++
	f := &fields{columns: t.columns, record: record, options: t.options}
	offer, err := t.layout.row(f)
	err = errors.Join(append(f.problems, err)...)
	if err == nil {
		offer, err = t.known.complete(offer)
	}
	if err == nil && offer.Dated == "" {
		return errUndated
	}
	if err == nil {
		err = t.known.check(offer, t.options.Today)
	}
	if err != nil {
		t.reject(line, fmt.Sprintf("%s:%s: %v", offer.Cloud, offer.Type, err))
		return nil
	}
	if doubt := t.known.dropUnusableSpot(&offer); doubt != "" {
		t.list.Flagged = append(t.list.Flagged, Rejected{line, offer.Name() + ": " + doubt})
	}
	t.rows = append(t.rows, offer)
	return nil
}

// unpacked returns the text of a list without gzip compression and byte-order mark.
func unpacked(r io.Reader) (*bufio.Reader, error) {
	b, err := regular.Gunzip(r)
	if err != nil {
		return nil, err
	}
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		b.Discard(3)
	}
	return bufio.NewReaderSize(&bounded{b, maxList}, 1<<16), nil
}

// bounded returns an error after left bytes, rather than io.EOF, which would truncate the file silently.
type bounded struct {
	r    io.Reader
	left int
}

// Read reads from r and counts the bytes.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("more than %d MiB", maxList>>20)
	}
	return n, err
}

var headingDate = regexp.MustCompile(`(?i)\b(?:dated|date|generated|as of)\b[^0-9\n]{0,20}([0-9]{4}-[0-9]{2}-[0-9]{2})`)

// preamble returns the date in the leading comment lines of a list without consuming them; empty if none exists.
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

// columnKey normalises the name of a column to its lower-case letters and digits.
func columnKey(name string) string {
	return strings.Map(func(r rune) rune {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// firstFew quotes the first columns of a header for an error message.
func firstFew(header []string) string {
	const most = 6
	names := strconv.Quote(strings.Join(header[:min(most, len(header))], ","))
	if len(header) > most {
		names += fmt.Sprintf(" and %d more", len(header)-most)
	}
	return names
}

// wrongDate describes the problem of a date; empty if it is valid. A date of up to a day after today is accepted.
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

// fold merges all rows of one type into one offer and counts the rows of unused regions.
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

// fewRegions lists up to eight regions for an error message.
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

// regionOf returns the region whose prices represent a type; see ListOptions.Region.
func regionOf(group []Offer) string {
	reference := referenceRegions[group[0].Cloud]
	if len(inRegion(group, reference)) > 0 {
		return reference
	}
	byPrice := slices.SortedStableFunc(slices.Values(group), func(a, b Offer) int { return cmp.Compare(a.OnDemand, b.OnDemand) })
	return byPrice[(len(byPrice)-1)/2].Region
}

// inRegion returns the offers of a region.
func inRegion(group []Offer, region string) []Offer {
	var list []Offer
	for _, r := range group {
		if strings.EqualFold(r.Region, region) {
			list = append(list, r)
		}
	}
	return list
}

// foldZones merges the rows of one type in one region into one offer: of the latest date, the median on-demand price
// and the median spot price.
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
		if spots[0] < spots[n-1] { // otherwise the list repeats one price
			o.SpotLow, o.SpotHigh, o.SpotZones = spots[0], spots[n-1], n
		}
	}
	return o
}

// withoutSpot returns o with the spot price and its details removed.
func (o Offer) withoutSpot() Offer {
	o.Spot, o.SpotLow, o.SpotHigh, o.SpotZones, o.SpotDated, o.SpotSource = 0, 0, 0, 0, "", ""
	return o
}

// fields provides the cells of one row by column name; an absent column is empty.
type fields struct {
	columns  map[string]int
	record   []string
	options  ListOptions
	problems []error
}

// text returns a cell without surrounding blanks.
func (f *fields) text(column string) string {
	if i, ok := f.columns[column]; ok && i < len(f.record) {
		return strings.TrimSpace(f.record[i])
	}
	return ""
}

// gib rounds an amount of memory to six digits, as in the embedded table: 22888 MiB and 22.3516 GiB are equal.
func gib(v float64) resources.GiB {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return resources.GiB(f)
}

// number returns the number of a cell; 0 if it is empty. An invalid number is recorded as a problem.
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

// count returns the number of a cell as an integer from 0 to a million; other values are recorded as a problem.
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
