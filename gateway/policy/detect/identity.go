package detect

// National identity numbers with a check digit that can be verified. Those of other countries have
// weaker ones, or none, and would be found in every second list of order numbers. A check digit
// alone is not enough here either, apart from the two of a number that is grouped as a CPF: a word
// for the number precedes it.

// Words that precede identity numbers.
var (
	nhsWords = newVocabulary("nhsWords")
	nifWords = newVocabulary("nifWords")
	cpfWords = newVocabulary("cpfWords")
)

// identityContext is how far before a number its word is searched, in bytes.
const identityContext = 40

// identity returns the kind and the end of an identity number at the start of the run; end is 0 when
// there is none.
func (p *pass) identity(r *run) (e Entity, end int) {
	t, start := p.text, r.groups[0].start
	if joined(t, start) && !named(t, start) {
		return "", 0
	}
	var buf [identityContext]byte
	d := r.digits[:]
	end = r.groups[0].end
	switch first := r.groups[0].len(); {
	case p.want&wantNIF != 0 && first == 8 && nif(t, end, number8(d)):
		if end = afterLetter(t, end); p.alone(end) && nifWords.in(p.context(buf[:], start)) {
			return NIF, end
		}
	case p.want&wantNIF != 0 && p.grouped(r, '.', 2, 3, 3) && nif(t, r.groups[2].end, number8(d)):
		if end = afterLetter(t, r.groups[2].end); p.alone(end) {
			return NIF, end
		}
	case p.want&wantCPF != 0 && first == 11 && cpf(d):
		if p.alone(end) && cpfWords.in(p.context(buf[:], start)) {
			return CPF, end
		}
	case p.want&wantCPF != 0 && p.grouped(r, '.', 3, 3, 3, 2) && t[r.groups[2].end] == '-' && cpf(d):
		if end = r.groups[3].end; p.alone(end) {
			return CPF, end
		}
	case p.want&wantNHS != 0 && (first == 10 || p.grouped(r, ' ', 3, 3, 4) || p.grouped(r, '-', 3, 3, 4)) && nhs(d):
		if first != 10 {
			end = r.groups[2].end
		}
		if p.alone(end) && nhsWords.in(p.context(buf[:], start)) {
			return NHSNumber, end
		}
	}
	return "", 0
}

// foreignNIF returns the end of the identity number of a foreigner that begins at start, as in
// X1234567L, or 0.
func (p *pass) foreignNIF(start int) int {
	t := p.text
	letter := upper(t[start]) - 'X'
	if letter > 2 || start+8 > len(t) || !p.free(start) {
		return 0
	}
	n := int(letter)
	for _, c := range t[start+1 : start+8] {
		if !isDigit(c) {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	if !nif(t, start+8, n) {
		return 0
	}
	end := afterLetter(t, start+8)
	var buf [identityContext]byte
	if !p.alone(end) || !nifWords.in(p.context(buf[:], start)) {
		return 0
	}
	return end
}

// alone reports that a number may end at i.
func (p *pass) alone(i int) bool { return endsAt(p.text, i) || trails(p.text, i) }

// grouped reports that the first groups of a run have the given lengths, divided by single marks;
// the last two of four may be divided by another one.
func (p *pass) grouped(r *run, mark byte, lengths ...int) bool {
	if r.g < len(lengths) {
		return false
	}
	for i, n := range lengths {
		if r.groups[i].len() != n {
			return false
		}
		if i > 0 && (r.groups[i].start != r.groups[i-1].end+1 || i < 3 && p.text[r.groups[i-1].end] != mark) {
			return false
		}
	}
	return true
}

// number8 returns the first eight digits as a number.
func number8(d []byte) (n int) {
	for _, c := range d[:8] {
		n = n*10 + int(c-'0')
	}
	return n
}

// nifLetters are the check letters, by the rest of the number when it is divided by 23.
const nifLetters = "TRWAGMYFPDXBNJZSQVHLCKE"

// nif reports that the check letter of a number is at i, perhaps behind a dash.
func nif(t []byte, i, n int) bool {
	if i < len(t) && t[i] == '-' {
		i++
	}
	return i < len(t) && n > 0 && upper(t[i]) == nifLetters[n%len(nifLetters)]
}

// afterLetter returns the position after the check letter at i.
func afterLetter(t []byte, i int) int {
	if t[i] == '-' {
		i++
	}
	return i + 1
}

// nhs verifies the check digit of ten digits.
func nhs(d []byte) bool {
	sum := 0
	for i, c := range d[:9] {
		sum += (10 - i) * int(c-'0')
	}
	check := 11 - sum%11
	return check != 10 && check%11 == int(d[9]-'0') && sum > 0
}

// cpf verifies the two check digits of eleven digits. Eleven equal ones have the right check digits
// and were never given to anybody.
func cpf(d []byte) bool {
	same := true
	for _, n := range []int{9, 10} {
		sum := 0
		for i, c := range d[:n] {
			sum += (n + 1 - i) * int(c-'0')
			same = same && c == d[0]
		}
		if sum*10%11%10 != int(d[n]-'0') {
			return false
		}
	}
	return !same
}
