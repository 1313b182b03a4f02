package detect

import "strings"

// Entity is a kind of personal data or secret, as policies and traces name it (design
// section 3, piiDetected).
type Entity string

// The entities that can be found.
const (
	Email      Entity = "EMAIL"
	Phone      Entity = "PHONE"
	CreditCard Entity = "CREDIT_CARD"
	IBAN       Entity = "IBAN"
	SSN        Entity = "SSN"        // United States social security number
	NHSNumber  Entity = "NHS_NUMBER" // of patients in England, Wales and the Isle of Man
	NIF        Entity = "NIF"        // Spanish identity numbers, of citizens (NIF, DNI) and foreigners (NIE)
	CPF        Entity = "CPF"        // Brazilian taxpayers
	IPAddress  Entity = "IP_ADDRESS"
	APIKey     Entity = "API_KEY"
	PrivateKey Entity = "PRIVATE_KEY"
	JWT        Entity = "JWT"
)

// Entities returns every entity that can be found, personal data first.
func Entities() []Entity {
	return []Entity{Email, Phone, CreditCard, IBAN, SSN, NHSNumber, NIF, CPF, IPAddress, APIKey, PrivateKey, JWT}
}

// ParseEntity returns the entity with a name: its own, in any case, or a name that other
// tools use for the same entity. ok is false for an unknown name.
func ParseEntity(name string) (Entity, bool) {
	switch e := Entity(strings.ToUpper(name)); e {
	case Email, Phone, CreditCard, IBAN, SSN, NHSNumber, NIF, CPF, IPAddress, APIKey, PrivateKey, JWT:
		return e, true
	case "EMAIL_ADDRESS":
		return Email, true
	case "PHONE_NUMBER":
		return Phone, true
	case "CARD", "CREDIT_CARD_NUMBER":
		return CreditCard, true
	case "IBAN_CODE":
		return IBAN, true
	case "US_SSN":
		return SSN, true
	case "UK_NHS":
		return NHSNumber, true
	case "ES_NIF", "ES_NIE", "NIE", "DNI":
		return NIF, true
	case "BR_CPF":
		return CPF, true
	case "IP", "IPV4", "IPV6":
		return IPAddress, true
	case "SECRET", "TOKEN":
		return APIKey, true
	}
	return "", false
}

// set is a set of entities.
type set uint16

// bit returns the set of one entity, empty for an unknown name.
func (e Entity) bit() set {
	for i, known := range Entities() {
		if e == known {
			return 1 << i
		}
	}
	return 0
}

// The entities as sets, in the order of Entities.
const (
	wantEmail set = 1 << iota
	wantPhone
	wantCard
	wantIBAN
	wantSSN
	wantNHS
	wantNIF
	wantCPF
	wantIP
	wantAPIKey
	wantPrivateKey
	wantJWT

	wantIdentity = wantNHS | wantNIF | wantCPF
	wantNumbers  = wantPhone | wantCard | wantIBAN | wantSSN | wantIdentity | wantIP
)
