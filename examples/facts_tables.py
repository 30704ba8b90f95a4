"""Public facts behind the example data, and the sentences that say them.

Each domain lists subjects with three attributes. An attribute has questions, sentences for the
passage, and other sentences for the answers; ``{s}`` is the subject, ``{v}`` the value.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attribute:
    """One thing to ask about a subject; ``number`` values can be altered, others swapped."""

    number: bool
    questions: tuple[str, ...]
    passages: tuple[str, ...]
    answers: tuple[str, ...]
    denial: str


@dataclass(frozen=True)
class Domain:
    """Subjects of one kind with their attributes.

    ``hedge`` is what a passage leaves open, ``certain`` claims the opposite; ``additions`` are
    claims that no passage supports.
    """

    name: str
    attributes: tuple[Attribute, Attribute, Attribute]
    hedge: str
    certain: str
    additions: tuple[str, ...]
    rows: tuple[tuple[str, str, str, str], ...]


def _rows(text: str) -> tuple[tuple[str, str, str, str], ...]:
    found = []
    for line in text.strip().splitlines():
        subject, first, second, third = (part.strip() for part in line.split("|"))
        found.append((subject, first, second, third))
    return tuple(found)


ELEMENTS = Domain(
    "elements",
    (
        Attribute(
            False,
            ("What is the chemical symbol of {s}?", "Which symbol stands for {s}?"),
            ("In formulas {s} is written as {v}.", "Its chemical symbol is {v}."),
            ("Chemists abbreviate {s} as {v}.", "The symbol used for {s} is {v}."),
            "The symbol of {s} is not {v}.",
        ),
        Attribute(
            True,
            ("What is the atomic number of {s}?", "How many protons are in an atom of {s}?"),
            (
                "The element {s} has the atomic number {v}.",
                "Each atom of {s} carries {v} protons.",
            ),
            ("A nucleus of {s} contains {v} protons.", "{s} is number {v} in the periodic table."),
            "{s} does not have the atomic number {v}.",
        ),
        Attribute(
            False,
            ("What is {s} commonly used for?", "Name a typical use of {s}."),
            ("A common use is in {v}.", "People rely on it in {v}."),
            ("You find {s} in {v}.", "It mostly ends up in {v}."),
            "{s} is of no use in {v}.",
        ),
    ),
    "How much of it lies deep inside the Earth is only roughly known.",
    "Exactly how much of it lies deep inside the Earth has been proven.",
    (
        "It was named by a committee in Geneva.",
        "A museum in Lisbon is devoted to it.",
        "It was traded for silk in the Middle Ages.",
        "Most of it is shipped through a single port.",
    ),
    _rows("""
        Tungsten | W | 74 | filaments and cutting tools
        Gold | Au | 79 | jewellery and electrical contacts
        Silver | Ag | 47 | cutlery and mirrors
        Iron | Fe | 26 | steel and cast machine parts
        Copper | Cu | 29 | electrical wiring and pipes
        Lead | Pb | 82 | car batteries and radiation shields
        Tin | Sn | 50 | solder and coated cans
        Sodium | Na | 11 | street lamps and coolants
        Potassium | K | 19 | fertilisers and soft soap
        Mercury metal | Hg | 80 | old thermometers and barometers
        Helium | He | 2 | balloons and cooled magnets
        Neon | Ne | 10 | glowing advertising signs
        Argon | Ar | 18 | protective gas for welding
        Silicon | Si | 14 | microchips and solar cells
        Titanium | Ti | 22 | aircraft parts and implants
        Zinc | Zn | 30 | galvanised coatings and brass
        Lithium | Li | 3 | rechargeable batteries
        Chlorine | Cl | 17 | water disinfection
        Iodine | I | 53 | antiseptics and table salt
        Uranium | U | 92 | fuel for nuclear reactors
    """),
)

MOONS = Domain(
    "moons",
    (
        Attribute(
            False,
            ("Which planet does {s} orbit?", "Around which planet does the moon {s} travel?"),
            ("{s} is a moon of {v}.", "The planet that {s} circles is {v}."),
            ("It goes around {v}.", "{s} belongs to the satellites of {v}."),
            "{s} is not a moon of {v}.",
        ),
        Attribute(
            True,
            ("In which year was {s} discovered?", "When was {s} found?"),
            ("It was discovered in {v}.", "Astronomers have known it since {v}."),
            ("The discovery dates from {v}.", "It was first spotted in {v}."),
            "{s} was not discovered in {v}.",
        ),
        Attribute(
            False,
            ("Who discovered {s}?", "Which astronomer found {s}?"),
            ("The discoverer of {s} was {v}.", "Credit for finding it goes to {v}."),
            ("{v} was the first to see it.", "We owe its discovery to {v}."),
            "{s} was not discovered by {v}.",
        ),
    ),
    "How {s} formed in detail is still debated.",
    "How {s} formed has been settled beyond any doubt.",
    (
        "Its surface was mapped by a probe from Brazil.",
        "It will be visited by a crew next decade.",
        "Its name was chosen in a newspaper contest.",
        "It shines brighter than Venus in winter.",
    ),
    _rows("""
        Io | Jupiter | 1610 | Galileo Galilei
        Titan | Saturn | 1655 | Christiaan Huygens
        Rhea | Saturn | 1672 | Giovanni Cassini
        Titania | Uranus | 1787 | William Herschel
        Enceladus | Saturn | 1789 | William Herschel
        Triton | Neptune | 1846 | William Lassell
        Ariel | Uranus | 1851 | William Lassell
        Phobos | Mars | 1877 | Asaph Hall
        Amalthea | Jupiter | 1892 | Edward Barnard
        Phoebe | Saturn | 1899 | William Pickering
        Miranda | Uranus | 1948 | Gerard Kuiper
        Nereid | Neptune | 1949 | Gerard Kuiper
    """),
)

COUNTRIES = Domain(
    "countries",
    (
        Attribute(
            False,
            ("What is the capital of {s}?", "Which city is the capital of {s}?"),
            ("The capital of {s} is {v}.", "Its government sits in the capital, {v}."),
            ("{s} is governed from {v}.", "That city is {v}."),
            "The capital of {s} is not {v}.",
        ),
        Attribute(
            False,
            ("What is the currency of {s}?", "With which money do people pay in {s}?"),
            ("People in {s} pay with the {v}.", "Its currency is the {v}."),
            ("Shops there charge in the {v}.", "The money used in {s} is the {v}."),
            "People in {s} do not pay with the {v}.",
        ),
        Attribute(
            False,
            ("Name a country that borders {s}.", "Which country is a neighbour of {s}?"),
            ("Among its neighbours is {v}.", "It shares a land border with {v}."),
            ("{v} lies next door.", "One can cross from {s} straight into {v}."),
            "{s} has no border with {v}.",
        ),
    ),
    "Historians differ on some details of its early settlement.",
    "Every detail of its early settlement is known for certain.",
    (
        "The national library holds a copy of every atlas.",
        "It has hosted three world fairs.",
        "Trains there run on solar power alone.",
        "Its flag was redrawn by schoolchildren.",
    ),
    _rows("""
        South Korea | Seoul | won | North Korea
        Poland | Warsaw | zloty | Slovakia
        Hungary | Budapest | forint | Austria
        Norway | Oslo | krone | Sweden
        Portugal | Lisbon | euro | Spain
        Switzerland | Bern | franc | Liechtenstein
        Turkey | Ankara | lira | Georgia
        Thailand | Bangkok | baht | Laos
        Vietnam | Hanoi | dong | Cambodia
        India | New Delhi | rupee | Nepal
        China | Beijing | yuan | Mongolia
        Kenya | Nairobi | shilling | Tanzania
        Morocco | Rabat | dirham | Algeria
        Ethiopia | Addis Ababa | birr | Somalia
        Ghana | Accra | cedi | Togo
        Canada | Ottawa | dollar | the United States
        Mexico | Mexico City | peso | Guatemala
        Peru | Lima | sol | Ecuador
        Brazil | Brasilia | real | Uruguay
        Argentina | Buenos Aires | peso | Chile
        Paraguay | Asuncion | guarani | Bolivia
        Czechia | Prague | koruna | Germany
    """),
)

RIVERS = Domain(
    "rivers",
    (
        Attribute(
            False,
            ("Into which body of water does the {s} flow?", "Where does the {s} end?"),
            ("The {s} empties into the {v}.", "It reaches its mouth at the {v}."),
            ("Its waters end in the {v}.", "The {s} drains to the {v}."),
            "The {s} does not flow into the {v}.",
        ),
        Attribute(
            True,
            ("About how long is the {s} in kilometres?", "What is the length of the {s}?"),
            (
                "The {s} is about {v} kilometres long.",
                "Its course measures roughly {v} kilometres.",
            ),
            ("It runs for some {v} kilometres.", "From end to end it covers about {v} kilometres."),
            "The {s} is not about {v} kilometres long.",
        ),
        Attribute(
            False,
            ("Through which city does the {s} flow?", "Name a city on the {s}."),
            ("One city on its banks is {v}.", "On its way it passes {v}."),
            ("It goes by {v}.", "{v} was built beside it."),
            "The {s} does not pass {v}.",
        ),
    ),
    "Published figures for its length differ, depending on which stream is taken as the source.",
    "Its length is known to the exact metre, and all sources agree on it.",
    (
        "It freezes over completely every third winter.",
        "A tunnel under it opened last spring.",
        "Its name means silver thread.",
        "Only wooden boats may use it.",
    ),
    _rows("""
        Rhine | North Sea | 1230 | Cologne
        Danube | Black Sea | 2850 | Vienna
        Nile | Mediterranean Sea | 6650 | Cairo
        Seine | English Channel | 775 | Paris
        Elbe | North Sea | 1090 | Dresden
        Volga | Caspian Sea | 3530 | Kazan
        Po | Adriatic Sea | 650 | Turin
        Rhone | Mediterranean Sea | 810 | Lyon
        Vistula | Baltic Sea | 1050 | Krakow
        Thames | North Sea | 345 | Oxford
        Mississippi | Gulf of Mexico | 3770 | Memphis
        Hudson | Atlantic Ocean | 507 | Albany
        Yangtze | East China Sea | 6300 | Wuhan
        Mekong | South China Sea | 4350 | Phnom Penh
        Tagus | Atlantic Ocean | 1007 | Toledo
        Loire | Atlantic Ocean | 1010 | Orleans
        Ganges | Bay of Bengal | 2510 | Varanasi
        Dnieper | Black Sea | 2200 | Kyiv
    """),
)

MOUNTAINS = Domain(
    "mountains",
    (
        Attribute(
            False,
            ("In which country does {s} stand?", "Which country is home to {s}?"),
            ("{s} stands in {v}.", "The country in which it rises is {v}."),
            ("You have to travel to {v} to climb it.", "{s} belongs to {v}."),
            "{s} does not stand in {v}.",
        ),
        Attribute(
            True,
            ("About how high is {s} in metres?", "What is the height of {s}?"),
            ("Its summit lies at about {v} metres.", "{s} rises to roughly {v} metres."),
            ("It tops out near {v} metres.", "Climbers reach some {v} metres on top of it."),
            "{s} is not about {v} metres high.",
        ),
        Attribute(
            True,
            ("In which year was {s} first climbed?", "When did people first reach the top of {s}?"),
            ("The first known ascent of {s} was in {v}.", "Its summit was first reached in {v}."),
            (
                "Nobody is known to have stood on top before {v}.",
                "The first ascent dates from {v}.",
            ),
            "{s} was not first climbed in {v}.",
        ),
    ),
    "Surveys of its height differ slightly from one another.",
    "All surveys agree on its height to the centimetre.",
    (
        "A cable car takes visitors to the very top.",
        "Its north face glows green at dusk.",
        "Sheep graze on it all year round.",
        "It appears on the coins of four countries.",
    ),
    _rows("""
        Mount Kilimanjaro | Tanzania | 5895 | 1889
        Mount Elbrus | Russia | 5642 | 1874
        Denali | the United States | 6190 | 1913
        Aconcagua | Argentina | 6961 | 1897
        Mount Cook | New Zealand | 3724 | 1894
        Mount Kenya | Kenya | 5199 | 1899
        Mount Logan | Canada | 5959 | 1925
        Nanga Parbat | Pakistan | 8126 | 1953
        Grossglockner | Austria | 3798 | 1800
        Galdhopiggen | Norway | 2469 | 1850
        Mount Olympus | Greece | 2918 | 1913
        Triglav | Slovenia | 2864 | 1778
        Mount Robson | Canada | 3954 | 1913
        Chimborazo | Ecuador | 6263 | 1880
    """),
)

INVENTIONS = Domain(
    "inventions",
    (
        Attribute(
            False,
            ("Who is known for inventing the {s}?", "Whose invention is the {s}?"),
            ("The {s} is credited to {v}.", "Its inventor is {v}."),
            ("The idea came from {v}.", "{v} gets the credit for the {s}."),
            "The {s} is not credited to {v}.",
        ),
        Attribute(
            True,
            ("From which year does the {s} date?", "When was the {s} introduced?"),
            ("The {s} was presented in {v}.", "It goes back to the year {v}."),
            ("It first appeared in {v}.", "The {s} has been around since {v}."),
            "The {s} does not date from {v}.",
        ),
        Attribute(
            False,
            ("What is the {s} for?", "Which purpose does the {s} serve?"),
            ("The {s} is used for {v}.", "Its purpose is {v}."),
            ("It serves for {v}.", "People turn to the {s} for {v}."),
            "The {s} does not serve for {v}.",
        ),
    ),
    "Others worked on similar ideas, and how much each of them contributed is debated.",
    "It is proven that nobody else contributed anything to it.",
    (
        "The first one was painted bright yellow.",
        "A royal decree banned it for a year.",
        "The original is kept in a bank vault.",
        "It paid for a hospital in Vienna.",
    ),
    _rows("""
        telephone | Alexander Graham Bell | 1876 | talking over a distance
        dynamite | Alfred Nobel | 1867 | blasting rock
        phonograph | Thomas Edison | 1877 | recording and playing sound
        stethoscope | Rene Laennec | 1816 | listening to heart and lungs
        cotton gin | Eli Whitney | 1793 | separating fibres from seeds
        lightning rod | Benjamin Franklin | 1752 | protecting buildings from storms
        mercury barometer | Evangelista Torricelli | 1643 | measuring air pressure
        electric battery | Alessandro Volta | 1800 | supplying steady current
        safety lamp | Humphry Davy | 1815 | lighting coal mines
        Diesel engine | Rudolf Diesel | 1893 | driving heavy machines
        World Wide Web | Tim Berners-Lee | 1989 | linking documents
        Geiger counter | Hans Geiger | 1908 | detecting radiation
        hot air balloon | the Montgolfier brothers | 1783 | flying above the ground
        braille script | Louis Braille | 1824 | reading by touch
        ballpoint pen | Laszlo Biro | 1938 | writing without blots
        air brake | George Westinghouse | 1869 | stopping trains
    """),
)

WORKS = Domain(
    "works",
    (
        Attribute(
            False,
            ("Who created {s}?", "Whose work is {s}?"),
            ("{s} is a work by {v}.", "Its author is {v}."),
            ("{v} wrote it.", "It comes from the pen of {v}."),
            "{s} is not by {v}.",
        ),
        Attribute(
            True,
            ("In which year did {s} first reach the public?", "When did {s} come out?"),
            ("{s} first reached the public in {v}.", "It came out in {v}."),
            ("The public has known it since {v}.", "It was new in {v}."),
            "{s} did not come out in {v}.",
        ),
        Attribute(
            False,
            ("What kind of work is {s}?", "To which form does {s} belong?"),
            ("It belongs to the form of the {v}.", "In form it is classed under {v}."),
            ("One would shelve it with {v}.", "{s} falls under {v}."),
            "{s} does not fall under {v}.",
        ),
    ),
    "How its very first audience received it is only partly documented.",
    "Every reaction of its first audience is documented in full.",
    (
        "It was finished in a single night.",
        "The manuscript crossed the sea in a violin case.",
        "A sequel was destroyed by its author.",
        "It was first dedicated to a cat.",
    ),
    _rows("""
        The Magic Flute | Wolfgang Amadeus Mozart | 1791 | opera
        The Barber of Seville | Gioachino Rossini | 1816 | comic opera
        Carmen | Georges Bizet | 1875 | tragic opera
        Aida | Giuseppe Verdi | 1871 | grand opera
        Swan Lake | Pyotr Tchaikovsky | 1877 | ballet
        Moby-Dick | Herman Melville | 1851 | novel
        Frankenstein | Mary Shelley | 1818 | gothic novel
        Pride and Prejudice | Jane Austen | 1813 | novel of manners
        A Doll's House | Henrik Ibsen | 1879 | stage play
        The Time Machine | H. G. Wells | 1895 | science fiction novel
        Madame Bovary | Gustave Flaubert | 1856 | realist novel
        The Rite of Spring | Igor Stravinsky | 1913 | modern ballet
        Rhapsody in Blue | George Gershwin | 1924 | concert piece
        The Raven | Edgar Allan Poe | 1845 | narrative poem
        Treasure Island | Robert Louis Stevenson | 1883 | adventure novel
        Messiah | George Frideric Handel | 1742 | oratorio
    """),
)

ANIMALS = Domain(
    "animals",
    (
        Attribute(
            False,
            ("To which class of animals does the {s} belong?", "What kind of animal is the {s}?"),
            ("The {s} is one of the {v}.", "Zoologists place it among the {v}."),
            ("It counts as one of the {v}.", "The {s} sits with the {v}."),
            "The {s} is not one of the {v}.",
        ),
        Attribute(
            False,
            ("Where does the {s} live in the wild?", "In which region is the {s} at home?"),
            ("In the wild it lives in {v}.", "The {s} is native to {v}."),
            ("Its home is {v}.", "You would meet the {s} in {v}."),
            "The {s} does not live in {v}.",
        ),
        Attribute(
            False,
            ("What does the {s} mainly eat?", "What is the main food of the {s}?"),
            ("The {s} mainly eats {v}.", "Its diet consists mostly of {v}."),
            ("It feeds on {v}.", "On its menu is above all {v}."),
            "The {s} does not eat {v}.",
        ),
    ),
    "How many of them live in the wild is only an estimate.",
    "The exact number living in the wild is known with certainty.",
    (
        "It can count to nine.",
        "Sailors once used it to find land.",
        "It sleeps only during full moon.",
        "A village in Wales keeps a herd of them.",
    ),
    _rows("""
        giant panda | mammals | China | bamboo
        koala | marsupials | Australia | eucalyptus leaves
        emperor penguin | birds | Antarctica | fish and krill
        giant anteater | mammals | South America | ants and termites
        Komodo dragon | reptiles | Indonesia | meat and carrion
        marine iguana | reptiles | the Galapagos Islands | algae
        axolotl | amphibians | Mexico | worms and small water animals
        puffin | birds | the North Atlantic coasts | small fish
        flamingo of the Camargue | birds | southern France | small crustaceans and algae
        walrus | mammals | the Arctic | clams and other shellfish
        kiwi | birds | New Zealand | worms and insects
        okapi | mammals | the Congo rainforest | leaves and buds
        aardvark | mammals | Africa south of the Sahara | termites
        gharial | reptiles | the rivers of India and Nepal | fish
        toucan | birds | the tropical forests of America | fruit
        snow leopard | mammals | the mountains of Central Asia | wild sheep and goats
    """),
)

LANDMARKS = Domain(
    "landmarks",
    (
        Attribute(
            False,
            ("In which city is the {s}?", "Which city does one visit to see the {s}?"),
            ("The {s} stands in {v}.", "The city that it belongs to is {v}."),
            ("Visitors find it in {v}.", "It is one of the sights of {v}."),
            "The {s} is not in {v}.",
        ),
        Attribute(
            True,
            ("In which year was the {s} opened or finished?", "When was the {s} completed?"),
            ("The {s} was completed in {v}.", "It has stood complete since {v}."),
            ("Work on it ended in {v}.", "The builders were done in {v}."),
            "The {s} was not completed in {v}.",
        ),
        Attribute(
            False,
            ("Who designed the {s}?", "Which designer is behind the {s}?"),
            ("Its design is owed to {v}.", "The plans for the {s} came from {v}."),
            ("{v} drew it up.", "The person or firm behind the design was {v}."),
            "The {s} was not designed by {v}.",
        ),
    ),
    "How many people worked on it in total is not known exactly.",
    "The exact number of people who worked on it is known.",
    (
        "It was moved two streets to the west.",
        "Bees are kept on its roof.",
        "Its doors weigh nine tonnes each.",
        "A twin of it was planned in Chicago.",
    ),
    _rows("""
        Eiffel Tower | Paris | 1889 | the firm of Gustave Eiffel
        Chrysler Building | New York | 1930 | William Van Alen
        Sydney Opera House | Sydney | 1973 | Jorn Utzon
        Guggenheim Museum on the Nervion | Bilbao | 1997 | Frank Gehry
        Brandenburg Gate | Berlin | 1791 | Carl Gotthard Langhans
        Atomium | Brussels | 1958 | Andre Waterkeyn
        Golden Gate Bridge | San Francisco | 1937 | Joseph Strauss and his team
        Gateway Arch | St. Louis | 1965 | Eero Saarinen
        Space Needle | Seattle | 1962 | John Graham and partners
        Louvre Pyramid | Paris | 1989 | I. M. Pei
        Neues Museum on Museum Island | Berlin | 1855 | Friedrich August Stuler
        Statue of Liberty | New York | 1886 | Frederic Auguste Bartholdi
        Crystal Palace of the Great Exhibition | London | 1851 | Joseph Paxton
        Lloyd's building | London | 1986 | Richard Rogers
        Casa Mila | Barcelona | 1912 | Antoni Gaudi
    """),
)

DOMAINS = (
    ELEMENTS,
    MOONS,
    COUNTRIES,
    RIVERS,
    MOUNTAINS,
    INVENTIONS,
    WORKS,
    ANIMALS,
    LANDMARKS,
)
