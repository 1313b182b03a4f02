package detect

import (
	"cmp"
	"strings"
	"sync"
	"unicode/utf8"
)

// glosses give words of other languages the vector of the English word in front
// of them, so that what is learned of one language holds for the others. A word
// that ends with * stands for all words that begin so.
var glosses = [...]string{
	"ignore ignorier* ignorez ignorer ignora ignoren ignoriere negeer* zignoruj* ignoruj* gormezden игнорир* проигнор* 忽略 无视 無視 무시* تجاهل*",
	"forget vergiss vergesst vergessen oublie* oubliez olvid* dimentica* esquec* vergeet* zapomn* unut* забуд* забыть* 忘记 忘掉 忘れ* 잊어* 잊고* انس انسى",
	"instructions anweisung* instruktion* instrucci* istruzion* instrucoes instrucao instructies instructie instrukcj* polecen* talimat* yonerge* инструкци* указани* 指令 指示 说明 命令 지시* 지침* تعليمات* التعليمات* تعليماتك",
	"rules regeln regel regles reglas regla regole regola regras regra regels zasad* kural* правил* 规则 規則 ルール 규칙* القواعد قواعد*",
	"restrictions beschrankung* einschrankung* restriccion* restrizion* restricoes beperking* ogranicz* kisitlama* огранич* 限制 制限 제한* قيود القيود",
	"previous vorherig* bisherig* precedent* precedente* anteriore* anterior* previas previos vorige eerdere poprzedni* wczesniejsz* onceki* предыдущ* прежн* 之前 以前 先前 前の 以前の 이전* 앞선* السابقة السابق",
	"above oben oberhalb ci-dessus arriba sopra acima hierboven powyzej yukarida* выше 上面 以上 上記 위의 أعلاه",
	"now jetzt nun maintenant ahora adesso agora teraz simdi теперь сейчас 现在 今 지금 이제 الآن",
	"new neue neuen neuer neues nouveau* nouvelle* nueva* nuevo* nuova nuove nuovo nuovi nova novas novo novos nieuwe nowe nowy nowa yeni новы* новая новое 新的 新しい 새로운 새 جديد* الجديد*",
	"instead stattdessen statt plutot invece zamiast yerine вместо 代わり 而是 대신 بدلا",
	"assistant assistent* assistente* asistent* asystent* asistan* ассистент* помощник* 助手 助理 アシスタント 어시스턴트 비서 مساعد* المساعد*",
	"agent agenten agente agenci* ajan* агент* 代理 智能体 エージェント 에이전트 وكيل* الوكيل*",
	"robot robots roboter* ботам бота боту 机器人 ボット 봇 챗봇 روبوت*",
	"model modell modelle modello modelo modelle* модел* 模型 モデル 모델 نموذج* النموذج*",
	"system systeme sistema sistem* система систем* 系统 システム 시스템 النظام نظام*",
	"tool werkzeug* outil* herramient* strument* ferrament* narzedzi* arac* инструмент* 工具 ツール 도구* أداة الأداة أدوات",
	"user nutzer* benutzer* utilisateur* usuari* utente utenti gebruiker* uzytkownik* kullanici* пользовател* 用户 使用者 ユーザー 利用者 사용자* المستخدم*",
	"customer kunde kunden kundin client cliente clientes clienti klant* klient* musteri* клиент* 客户 顾客 顧客 お客様 고객* العميل العملاء",
	"send sende senden schick* sendet envoie* envoyez envoyer envia* envie* enviar invia* inviare mandare manda mande stuur* sturen wyslij* wysyla* wyslac gonder* отправ* вышли* пришли* шли 发送 发给 寄给 送信 送って 送る 보내* 전송* أرسل* ارسل* إرسال",
	"forward weiterleit* leite transferez transferer transferir reenvi* inoltra* encaminh* doorstuur* przekaz* przeslij* ilet* yonlendir* перешл* переслать перенаправ* 转发 転送 전달* أعد توجيه",
	"upload hochlad* lade televers* subir sube cargar carica* carregar uploaden wgraj* przeslij yukle* загруз* 上传 アップロード 업로드* ارفع رفع",
	"copy kopier* copie copiez copier copia* copiar kopiuj* skopiuj* kopyala* скопир* копи* 复制 拷贝 コピー 복사* انسخ نسخ*",
	"attach anhang* beifug* joindre joignez adjunt* allega* anexar anexe bijvoeg* zalacz* dolacz* ekle* прикреп* прилож* 附上 附加 添付 첨부* أرفق إرفاق",
	"add hinzufug* erganz* ajout* anad* agreg* aggiung* adicion* acrescent* toevoeg* dodaj* dodac добав* 添加 加入 加上 追加 추가* أضف إضافة",
	"delete losch* supprim* efface* borra* elimin* cancella* apag* exclu* verwijder* wis usun* skasuj* silin* удал* сотри* 删除 删掉 削除 삭제* 지워* احذف حذف*",
	"remove entfern* enlev* quita* rimuov* remova* usunac kaldir* убер* убрать 移除 去掉 取り除 제거* أزل إزالة",
	"pay zahl* bezahl* payer payez paga* pagar pague betaal* zaplac* ode* оплат* заплат* 支付 付款 支払 결제* 지불* ادفع دفع*",
	"transfer uberweis* virement virer transfier* transferi* bonific* overmak* overschrijv* przelew* przelej* havale* перевод* переведи* 转账 汇款 振込 送金 이체* 송금* تحويل* حول",
	"buy kauf* achet* compra* comprar acquist* koop* kup* satin купи* 购买 買 購入 구매* 구입* اشتر* شراء",
	"approve genehmig* freigeb* approuv* aprob* aprueb* approv* aprov* goedkeur* zatwierd* onayla* одобр* утверд* 批准 通过 承認 승인* وافق موافقة*",
	"refund erstatt* ruckerstatt* rembours* reembols* rimbors* terugbetal* zwrot* iade* возврат* 退款 返金 환불* استرداد",
	"change ander* changez changer cambia* cambiar modific* wijzig* zmien* zmian* degistir* измен* поменя* 修改 更改 変更 변경* 수정* غير تغيير",
	"replace ersetz* remplac* reemplaz* sustitu* sostitu* substitu* vervang* zastap* замен* 替换 置き換え 바꾸* استبدل",
	"disable deaktivier* desactiv* disattiv* desativ* uitschakel* wylacz* kapat* отключ* 禁用 关闭 無効 비활성* عطل تعطيل",
	"enable aktivier* freischalt* activez activa activar attiva* ativ* inschakel* wlacz* etkinlestir* включ* 启用 开启 有効 활성* فعل تفعيل",
	"execute ausfuhr* fuhre execut* ejecut* esegu* uitvoer* voer wykon* uruchom* calistir* выполн* запуст* 执行 运行 実行 실행* نفذ تنفيذ شغل",
	"call aufruf* rufe ruf appelle* appelez llama llame llamar chiama* chama* chame aanroep* wywol* cagir* вызов* вызв* 调用 呼び出 호출* استدع*",
	"open offn* ouvre* ouvrez abre abrir abra apri aprire abrir otworz* acin откро* 打开 開い 開く 열어* 열기 افتح فتح",
	"click klick* cliqu* clic clicca* clique klik* kliknij* tikla* нажми* кликн* 点击 クリック 클릭* اضغط انقر",
	"read lesen liest lire lisez leer lee leggere leggi ler leia lees leest czyta* przeczyta* oku* прочита* читай* чита* 阅读 读取 看到 読む 読ん 読み 읽* اقرأ قراءة",
	"summarize zusammenfass* fasse riassum* riassunto samenvat* podsumuj* streszcz* ozetle* ozet* резюм* обобщ* кратк* 总结 摘要 概括 要約 요약* لخص تلخيص ملخص*",
	"translate ubersetz* tradui* traduc* traduz* vertaal* przetlumacz* tlumacz* cevir* перевест* переведи 翻译 翻訳 번역* ترجم* ترجمة",
	"process verarbeit* traite* traiter procesa* elabora* processa* verwerk* przetwarz* обработ* обрабаты* 处理 処理 처리* عالج معالجة",
	"answer antwort* repond* responde* responda* rispond* antwoord* beantwoord* odpowiad* odpowied* yanit* cevap* ответ* отвеч* 回答 答复 回复 答え 回答 返信 답변* 대답* 응답* أجب الإجابة رد",
	"say sag sagen dites dire diga dice decir dica dizer zeg zeggen powiedz* soyle* скажи* сказа* говор* 说 告诉 言う 言って 말하* 말해* قل قول",
	"tell mitteil* sagst informe* informier* avisa* avise raconte cuent* vertel* informuj* poinformuj* bildir* сообщ* расскаж* 告知 通知 伝え 知らせ 알려* 알리* أخبر إخبار",
	"mention erwahn* mentionn* mencion* menzion* noem vermeld* wspomin* wspomnij* belirt* bahset* упомин* упомян* 提及 提到 触れ 言及 언급* تذكر ذكر",
	"write schreib* ecri* escrib* escriba scriv* escrev* schrijf* napisz* pisz* yaz yazin напиш* пиши* 写 撰写 書い 書き 작성* 써* اكتب كتابة",
	"show zeig* montre* affich* muestra* mostr* toon* pokaz* goster* покаж* показ* 显示 展示 表示 見せ 보여* 표시* اعرض عرض*",
	"reveal verrat* offenleg* revel* rivel* onthul* ujawn* acikla* раскр* выдай* 透露 泄露 公开 開示 明かし 공개* 밝혀* اكشف كشف",
	"repeat wiederhol* repet* repit* ripet* herhaal* powtorz* tekrarla* повтор* 重复 繰り返 반복* كرر",
	"list aufliste* liste listez enumer* elenc* lijst lista wymien* listele* перечисл* список* 列出 清单 列挙 一覧 나열* 목록* قائمة اسرد",
	"password passwort* kennwort* contrasen* senha* wachtwoord* hasl* parola* sifre* парол* 密码 口令 パスワード 비밀번호* كلمة المرور",
	"key schlussel* clef clave claves chiave chiavi chave* sleutel* klucz* anahtar* ключ* 密钥 钥匙 鍵 キー 키 مفتاح* مفاتيح",
	"credentials zugangsdaten anmeldedaten identifiants credencial* credenzial* inloggegevens dane poswiadcz* kimlik учетны* 凭证 凭据 認証情報 자격 بيانات",
	"secret geheim* secreto* segreto* segret* segredo* tajn* gizli* секрет* 秘密 机密 機密 비밀* 기밀* سري* سر السر",
	"confidential vertraulich* confidentiel* confidencial* riservat* vertrouwelijk* poufn* конфиденц* 保密 秘匿 대외비 سرية",
	"conversation gesprach* unterhaltung* conversacion* conversazion* conversa gesprek* rozmow* konusma* sohbet* переписк* беседа* диалог* 对话 聊天 会話 대화* محادثة* المحادثة*",
	"history verlauf* historique* historial* cronologia historico geschiedenis histori* gecmis* истори* 历史 记录 履歴 기록* 내역* سجل* تاريخ",
	"file datei* fichier* archivo* arquivo* bestand* plik* dosya* файл* 文件 ファイル 파일* ملف* الملف*",
	"document dokument* documento* belge* документ* 文档 文書 書類 문서* مستند* وثيقة",
	"mail nachricht* courriel* correo* posta bericht* wiadomosc* eposta e-posta письм* почт* 邮件 メール 메일* 이메일* بريد* البريد*",
	"address adresse* direccion* indirizz* endereco* adres* адрес* 地址 アドレス 住所 주소* عنوان* العنوان",
	"account konto* compte* cuenta* conta contas rekening* konta hesap* hesab* счет* аккаунт* 账户 账号 口座 アカウント 계정* 계좌* حساب* الحساب",
	"bank banque* banco* banca banka* банк* 银行 銀行 은행* بنك* البنك",
	"money geld argent dinero denaro dinheiro pieniadze* деньг* 钱 资金 お金 돈 المال أموال",
	"data daten donnees datos dati dados gegevens danych dane veri verileri данны* 数据 資料 データ 데이터* 정보* البيانات",
	"invoice rechnung* facture* factura* fattura* fatura* factuur* faktur* счёт 发票 請求書 청구서* 송장* فاتورة* الفاتورة",
	"without ohne sin senza sem zonder bez olmadan без 不经 无需 なしで せずに 없이 دون بدون",
	"asking ruckfrage* nachfrag* demander preguntar chiedere perguntar vragen pytania pytac sormadan спрашива* спрос* 询问 确认 尋ね 確認 묻지* 확인* سؤال",
	"confirmation bestatig* confirmacion conferma confirmacao bevestig* potwierdz* onay подтвержд* 確認なし 确认 승인 تأكيد*",
	"quietly heimlich stillschweigend* discretement silencieus* discretamente silenzios* stilletjes stiekem cicho potajemnie sessizce тихо незаметно молча 悄悄 默默 こっそり 黙って 몰래 조용히 بهدوء بصمت سرا",
	"hide versteck* verberg* verschweig* cacher cachez ocult* nascond* escond* verberg* ukry* gizle* sakla* скры* скрой* 隐藏 隐瞒 隠し 隠す 숨기* 숨겨* أخف إخفاء",
	"always immer toujours siempre sempre altijd zawsze daima всегда 始终 总是 常に いつも 항상 دائما",
	"never niemals jamais nunca mai nooit nigdy asla никогда 绝不 永远不 決して 절대 أبدا",
	"every jede* chaque cada ogni elke iedere kazd* кажд* 每个 每次 毎回 すべての 매번 모든 كل",
	"not nicht niet не ない しない 않 안 ليس لا",
	"must muss mussen doit doivent devez debe deben debes deve devono devi moet moeten musi musisz должен должн* обязан* 必须 必須 なければ 해야 يجب",
	"should soll sollte sollen devrait deberia* dovrebbe deveria* zou powin* следует 应该 应当 べき 바랍니다 ينبغي",
	"please bitte veuillez gelieve alstublieft prosze lutfen пожалуйста 请 ください 下さい 주세요 부탁* 하십시오 يرجى الرجاء",
	"if wenn jezeli jesli eger если 如果 若 もし 만약 إذا",
	"when sobald lorsque quand cuando quando wanneer zodra gdy kiedy когда 当 とき 時に 때 عندما",
	"before bevor avant antes voordat zanim прежде перед 之前先 前に 전에 قبل",
	"after nachdem apres despues dopo depois nadat potem sonra после 之后 以后 後に あとで 후에 بعد",
	"urgent dringend* urgente* dringende pilne pilny acil срочно срочн* 紧急 緊急 至急 긴급* 시급* عاجل* فورا",
	"immediately sofort umgehend immediatement inmediatamente immediatamente imediatamente onmiddellijk meteen natychmiast hemen derhal немедленно 立即 马上 直ちに すぐに 즉시 바로 فورا حالا",
	"allowed erlaubt durfen darf autorise* permitido* permess* consentit* toegestaan wolno dozwol* izin* разрешен* можно 允许 可以 許可 してよい 허용* مسموح",
	"authorized berechtigt* befugt* autorizad* autorizzat* habilite* gemachtigd upowaznion* yetkili* уполномоч* 授权 権限 권한* مخول مصرح",
	"administrator verwalter* administrateur* administrador* amministrator* beheerder* administrator* yonetici* администратор* админ* 管理员 管理者 관리자* المسؤول مدير المشرف",
	"developer entwickler* developpeur* desarrollador* sviluppator* desenvolvedor* ontwikkelaar* programist* tworc* gelistirici* разработчик* 开发者 开发人员 開発者 개발자* المطور* مطور*",
	"security sicherheit* securite seguridad sicurezza seguranca beveiliging veiligheid bezpieczenst* guvenlik* безопасност* 安全 セキュリティ 보안* الأمن أمن الأمان",
	"boss chefin jefe capo baas szef* mudur* начальник* директор* 老板 总经理 社長 上司 사장* 대표* المدير",
	"role rolle ruolo papel rol roli роль роли 角色 役割 役 역할* دور",
	"play spiel spiele jouer joue juega jugar gioca giocare jogar jogue speel* zagraj* oyna* сыгра* играй* 扮演 演じ 연기* العب",
	"pretend tust vorgeben imaginez finge fingir finja immagina* udawaj* wyobraz* davran* hayal представь* притвор* 假装 想象 ふり 想像 척 상상* تظاهر تخيل",
	"story geschichte* histoire* cuento storia verhaal opowie* hikaye* рассказ* сказк* 故事 物語 小説 이야기* 소설* قصة",
	"task aufgabe* tache* tarea* compito compiti tarefa* taak zadani* gorev* задач* задани* 任务 タスク 作業 課題 작업* 과제* مهمة* المهمة",
	"recommend empfehl* empfiehl* recommand* recomend* recomiend* consigli* raccomand* aanbevel* polec* oner* рекоменд* 推荐 推薦 おすすめ 추천* أوص توصية",
	"best beste besten bester meilleur* mejor* miglior* melhor* najleps* лучш* 最好 最佳 最高 一番 최고* 가장 الأفضل أفضل",
	"rating bewertung* valoracion* valutazion* avaliac* beoordeling* ocen* puan* оценк* рейтинг* 评分 评价 評価 평가* 평점* تقييم*",
	"candidate bewerber* kandidat* candidat* candidato* sollicitant* aday* кандидат* 候选人 应聘者 候補 応募者 지원자* 후보* المرشح مرشح*",
	"product produkt* produit* product* prodott* produto* urun* продукт* товар* 产品 商品 製品 제품* 상품* المنتج منتج*",
	"order bestell* pedido* ordine ordini bestelling* zamowi* siparis* заказ* 订单 注文 주문* طلب* الطلب",
	"delivery lieferung* liefer* livraison* entrega* consegna* levering* dostaw* teslimat* kargo доставк* 配送 发货 配達 納品 배송* 배달* توصيل التسليم",
	"price preis* prix precio* prezzo prezzi preco* prijs* cena ceny fiyat* цен* 价格 価格 料金 가격* 요금* السعر سعر*",
	"meeting besprechung* sitzung* reunion* riunion* reuniao vergadering* spotkani* toplanti* встреч* совещан* 会议 会議 打ち合わせ 회의* 미팅* اجتماع* الاجتماع",
	"tomorrow morgen demain manana domani amanha jutro yarin завтра 明天 明日 내일 غدا",
	"today heute aujourd oggi hoje vandaag dzis dzisiaj bugun сегодня 今天 今日 오늘 اليوم",
	"week woche semaine* semana* settiman* weken tydzien tygodni* hafta* недел* 周 一周 週 来週 주간 다음주 أسبوع الأسبوع",
	"thanks danke merci gracias grazie obrigad* bedankt dank dziekuj* tesekkur* спасибо 谢谢 ありがとう 감사* شكرا",
	"hello hallo bonjour hola ciao ola witam czesc dzien merhaba selam здравствуйте привет 你好 您好 こんにちは 안녕* مرحبا السلام",
	"we wir nous nosotros noi wij biz мы 我们 私たち 우리* نحن",
	"you ihr sie vous usted voi voce jullie siz вы ты 你 您 あなた 너는 당신* أنت",
	"your dein* deine deinen ihre ihren votre vos tus vostr* seus suas jouw twoj* senin sizin твой твои ваш* 你的 您的 あなたの 네 당신의 لديك",
	"all alle allen tous toutes todos todas tutti tutte wszystki* tum butun все всех всё 所有 全部 すべて 全て 모든 모두 전부 جميع",
	"this dieser diese dieses cette questo questa este esta deze dit bu это этот эту 这 这个 この これ 이 이것 هذا هذه",
	"text texte texto testo tekst* metin* текст* 文本 文字 テキスト 文章 텍스트* النص نص",
	"page seite* pagina* strona* sayfa* страниц* 页面 网页 ページ 페이지* صفحة الصفحة",
	"link verweis* lien* enlace* collegament* odnosnik* baglanti* ссылк* 链接 リンク 링크* رابط* الرابط",
	"message meldung* mensaje* messaggi* mensagem* mensagens komunikat* mesaj* сообщени* 消息 信息 メッセージ 메시지* رسالة* الرسالة رسائل",
	"report bericht* rapport* informe* rapporto relatorio* raport* rapor* отчет* отчёт* 报告 報告 レポート 보고* 보고서* تقرير* التقرير",
	"contract vertrag* contrat* contrato* contratto* overeenkomst* umow* sozlesme* договор* контракт* 合同 契約 계약* عقد العقد",
	"ticket anfrage* solicitud* richiest* pedido verzoek* zgloszeni* talep* заявк* 工单 请求 チケット 依頼 티켓* 요청* تذكرة",
	"warning warnung* avertissement* advertencia* avviso avvisi aviso* waarschuwing* ostrzezeni* uyari* предупрежден* 警告 경고* تحذير*",
	"error fehler* erreur* errore errori erro erros fout* blad* bledu hata* ошибк* 错误 エラー 오류* 에러* خطأ",
	"test teste pruebas prueba prova provas proby proba тест* 测试 テスト 테스트* اختبار*",
	"example beispiel* exemple* ejemplo* esempio esempi exemplo* voorbeeld* przyklad* ornek* пример* 例如 例子 例えば 예시* 예를 مثال*",
	"attack angriff* attaque* ataque* attacco attacchi aanval* atak* saldiri* атак* 攻击 攻撃 공격* هجوم*",
	"employee mitarbeit* employe* empleado* dipendent* funcionari* medewerker* pracownik* calisan* сотрудник* 员工 社員 従業員 직원* موظف* الموظف",
	"colleague kolleg* collegue* companer* collega colleghi colega* wspolpracown* коллег* 同事 同僚 동료* زميل*",
	"team mannschaft equipe* equipo* squadra zespol* ekip* takim* команд* 团队 チーム 팀* فريق* الفريق",
	"server serveur* servidor* serwer* sunucu* сервер* 服务器 サーバー 서버* خادم* الخادم",
	"database datenbank* donnees baza bazy veritabani* база базы 数据库 データベース 데이터베이스* قاعدة",
	"search suche* suchen cherche* recherch* busca* buscar cerca cercare zoek* szukaj* wyszuk* ara arama поиск* найди* 搜索 查找 検索 검색* ابحث بحث*",
	"save speicher* enregistr* guarda* salva salvare salvar opslaan zapisz* kaydet* сохран* 保存 저장* احفظ حفظ",
	"unlimited unbegrenzt* uneingeschrankt* illimite* ilimitad* illimitat* onbeperkt* nieograniczon* sinirsiz* неограничен* 无限制 無制限 무제한* محدود",
	"prompt systemprompt* eingabeaufforderung приглашени* промпт* 提示词 提示 プロンプト 프롬프트* موجه المطالبة",
	"end ende fim einde koniec конец конца 结束 終了 終わり 끝 종료* نهاية انتهى",
	"begin beginn* debut* comienz* empieza* inizi* inicio comec* zacznij* poczatek basla* начал* начни* 开始 開始 始め 시작* ابدأ بداية",
	"because weil denn parce porque perche omdat poniewaz cunku потому 因为 なぜなら 때문* لأن",
	"with mit avec birlikte вместе 与 와 مع",
	"for fur voor dla icin для 为 ために 위해* من أجل",
	"and und et oraz и 和 そして 그리고 و",
	"is ist est jest является 是 です 입니다 هو",
}

// maxGloss bounds the beginnings of words that glosses are looked up by, in bytes.
const maxGloss = 24

// gloss is what begins with some bytes: hashes of the English words for the word
// that they are, for all that begin so, and for a word in a script without
// spaces; 0 when there is none.
type gloss struct{ whole, start, wide uint32 }

// glossIndex returns the glosses by the hash of the word.
var glossIndex = sync.OnceValue(func() map[uint32]gloss {
	x := make(map[uint32]gloss)
	var f folded
	for _, line := range glosses {
		english, rest, _ := strings.Cut(line, " ")
		h := hashBytes(english)
		f.foldText([]byte(rest))
		for w := range strings.FieldsSeq(string(f.text)) {
			word, open := strings.CutSuffix(w, "*")
			if len(word) < 2 {
				continue
			}
			k := hashBytes(word)
			known := x[k]
			switch r, _ := utf8.DecodeRuneInString(word); {
			case wideRune(r):
				known.wide = cmp.Or(known.wide, h)
			case open || r >= 0xAC00 && r <= 0xD7A3:
				known.start = cmp.Or(known.start, h)
			default:
				known.whole = cmp.Or(known.whole, h)
			}
			x[k] = known
		}
	}
	return x
})

// glossOf returns the vector of the English word for a word, nil when it is not known.
func glossOf(w []byte) []byte {
	h, found, index := uint32(2166136261), uint32(0), glossIndex()
	for i, c := range w[:min(len(w), maxGloss)] {
		h = (h ^ uint32(c)) * 16777619
		if g, known := index[h]; known {
			if g.start != 0 {
				found = g.start
			}
			if i+1 == len(w) && g.whole != 0 {
				found = g.whole
			}
		}
	}
	if found == 0 {
		return nil
	}
	return vectorOf(found)
}

// glossAt is glossOf for what begins with a character of a script without spaces.
func glossAt(t []byte) []byte {
	h, found, index := uint32(2166136261), uint32(0), glossIndex()
	for i, c := range t[:min(len(t), maxWide)] {
		h = (h ^ uint32(c)) * 16777619
		if i+1 == len(t) || utf8.RuneStart(t[i+1]) {
			if g, known := index[h]; known && g.wide != 0 {
				found = g.wide
			}
		}
	}
	if found == 0 {
		return nil
	}
	return vectorOf(found)
}
